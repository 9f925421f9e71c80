--- Logistic regression on Fashion-MNIST through one matrix table: a row of weights for each of ten classes.
---
---   luajit fashion.lua [--epochs 3] [--images 60000] [--rate 0.1] [--data DIR]
---   mpirun -np 4 luajit fashion.lua
local multiverso = require "multiverso"

local options = {epochs = 3, images = 60000, rate = 0.1, data = "/usr/share/datasets/fashion-mnist"}
for i = 1, #arg, 2 do
  local name = arg[i]:match("^%-%-(%w+)$")
  if options[name] == nil then error("unknown option " .. arg[i] .. "; known: --epochs, --images, --rate, --data", 0) end
  options[name] = tonumber(arg[i + 1]) or arg[i + 1] or error(arg[i] .. " needs a value", 0)
end

local kPixels, kClasses, kBatch = 784, 10, 100
local kInputs = kPixels + 1 -- the last input is always 1, for the bias

-- Returns at most `count` bytes of a gzipped file after its header of `skip` bytes.
local function bytes_of(name, skip, count)
  local path = options.data .. "/" .. name .. ".gz"
  local pipe = assert(io.popen(("gzip -dc '%s'"):format(path)))
  local header = pipe:read(skip)
  if not header then error("cannot read " .. path .. "; Debian's package dataset-fashion-mnist has it", 0) end
  local bytes = pipe:read(count) or ""
  pipe:close()
  return bytes
end

local function load(part, count)
  local pixels = bytes_of(part .. "-images-idx3-ubyte", 16, count * kPixels)
  local labels = bytes_of(part .. "-labels-idx1-ubyte", 8, count)
  return {pixels = pixels, labels = labels, count = #labels}
end

-- Copies image i (from 0) to `input`, as values in [0, 1].
local function read_image(set, i, input)
  local start = i * kPixels
  for p = 1, kPixels do input[p] = set.pixels:byte(start + p) / 255 end
  input[kInputs] = 1
  return set.labels:byte(i + 1)
end

-- Returns the probabilities of the classes and the most likely class (from 0). `weights` is flat and indexed from 0.
local function classify(weights, input, scores)
  local best, top, sum = 0, -math.huge, 0
  for c = 0, kClasses - 1 do
    local start, score = c * kInputs - 1, 0
    for p = 1, kInputs do score = score + weights[start + p] * input[p] end
    scores[c] = score
    if score > top then best, top = c, score end
  end
  for c = 0, kClasses - 1 do
    scores[c] = math.exp(scores[c] - top)
    sum = sum + scores[c]
  end
  for c = 0, kClasses - 1 do scores[c] = scores[c] / sum end
  return best
end

multiverso.init{updater_type = "sgd"} -- the table subtracts what is added
local worker, workers = multiverso.worker_id(), multiverso.num_workers()
local train = load("train", options.images)
local shared = multiverso.MatrixTableHandler:new(kClasses, kInputs)

local weights = multiverso.FloatTensor(kClasses, kInputs)
local gradient = multiverso.FloatTensor(kClasses, kInputs)
local w, g = weights:data(), gradient:data()
local input, scores = {}, {}

for epoch = 1, options.epochs do
  for first = worker * kBatch, train.count - kBatch, workers * kBatch do -- each worker has its own batches
    weights:copy(shared:get())
    gradient:zero()
    for i = first, first + kBatch - 1 do
      local label = read_image(train, i, input)
      classify(w, input, scores)
      for c = 0, kClasses - 1 do
        local share = (scores[c] - (c == label and 1 or 0)) * options.rate / kBatch
        local start = c * kInputs - 1
        for p = 1, kInputs do g[start + p] = g[start + p] + share * input[p] end
      end
    end
    shared:add(gradient)
  end
  multiverso.barrier()
  if worker == 0 then print(("epoch %d of %d"):format(epoch, options.epochs)) end
end

if worker == 0 then
  weights:copy(shared:get())
  local test, right = load("t10k", math.min(10000, options.images)), 0
  for i = 0, test.count - 1 do
    local label = read_image(test, i, input)
    if classify(w, input, scores) == label then right = right + 1 end
  end
  print(("%d workers: test accuracy %.4f"):format(workers, right / test.count))
end
multiverso.barrier()
multiverso.shutdown()
