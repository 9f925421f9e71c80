--- Makes a million adds, of a tensor and of a table, then gets and handlers. Prints the resident kilobytes before and
--- after.
local multiverso = require "multiverso"

local function resident()
  collectgarbage()
  collectgarbage()
  for line in io.lines("/proc/self/status") do
    local kilobytes = line:match("^VmRSS:%s+(%d+)")
    if kilobytes then return tonumber(kilobytes) end
  end
end

multiverso.init{log_level = "off"}
local array = multiverso.ArrayTableHandler:new(64)
local large = multiverso.ArrayTableHandler:new(50000)
local matrix = multiverso.MatrixTableHandler:new(8, 8)
local tensor, list, row = multiverso.FloatTensor(64):fill(1), {}, {{1, 1, 1, 1, 1, 1, 1, 1}}
for i = 1, 64 do list[i] = 1 end

local function work(adds)
  for i = 1, adds do
    array:add(tensor)
    if i % 10 == 0 then array:add(list) end
    if i % 20 == 0 then matrix:add(row, {i % 8}) end
    if i % 100 == 0 then array:get() end
    if i % 1000 == 0 then large:get() end
    pcall(array.add, array, i % 1000 == 0 and {1} or tensor)
  end
end

work(20000)
local before = resident()
work(500000)
print(before, resident())
multiverso.shutdown()
