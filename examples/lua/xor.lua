--- A network of two layers learns xor. Its parameters are one array table, to which every worker adds its steps.
---
---   luajit xor.lua                 mpirun -np 4 luajit xor.lua
local multiverso = require "multiverso"

local kHidden, kRate, kRounds = 4, 0.5, 3000
local samples = {{0, 0, 0}, {0, 1, 1}, {1, 0, 1}, {1, 1, 0}}

-- Layout of the parameters: w1, w2 and bias of each hidden unit, followed by the weights and the bias of the output.
local size = 3 * kHidden + kHidden + 1
local function hidden_at(h) return 3 * (h - 1) end
local kOut = 3 * kHidden

local function sigmoid(x) return 1 / (1 + math.exp(-x)) end

local function tanh(x) return 2 * sigmoid(2 * x) - 1 end

local function forward(p, a, b)
  local hidden, sum = {}, p[size]
  for h = 1, kHidden do
    local at = hidden_at(h)
    hidden[h] = tanh(p[at + 1] * a + p[at + 2] * b + p[at + 3])
    sum = sum + p[kOut + h] * hidden[h]
  end
  return sigmoid(sum), hidden
end

-- Adds the gradient of the cross entropy of one sample to `gradient`.
local function backward(p, sample, gradient)
  local a, b, wanted = sample[1], sample[2], sample[3]
  local output, hidden = forward(p, a, b)
  local error_out = output - wanted
  gradient[size] = gradient[size] + error_out
  for h = 1, kHidden do
    local at = hidden_at(h)
    gradient[kOut + h] = gradient[kOut + h] + error_out * hidden[h]
    local slope = error_out * p[kOut + h] * (1 - hidden[h] * hidden[h])
    gradient[at + 1] = gradient[at + 1] + slope * a
    gradient[at + 2] = gradient[at + 2] + slope * b
    gradient[at + 3] = gradient[at + 3] + slope
  end
end

multiverso.init{updater_type = "sgd"} -- the table subtracts what is added
math.randomseed(7)
local start = {}
for i = 1, size do start[i] = math.random() * 2 - 1 end
local parameters = multiverso.ArrayTableHandler:new(size, start)
local workers = multiverso.num_workers()

for _ = 1, kRounds do
  local p = parameters:get():totable()
  local gradient = {}
  for i = 1, size do gradient[i] = 0 end
  for _, sample in ipairs(samples) do backward(p, sample, gradient) end
  for i = 1, size do gradient[i] = gradient[i] * kRate / #samples / workers end
  parameters:add(gradient)
end

multiverso.barrier()
if multiverso.worker_id() == 0 then
  local p = parameters:get():totable()
  for _, sample in ipairs(samples) do
    local output = forward(p, sample[1], sample[2])
    print(("%d xor %d = %.0f   (%.3f)"):format(sample[1], sample[2], output, output))
  end
end
multiverso.shutdown()
