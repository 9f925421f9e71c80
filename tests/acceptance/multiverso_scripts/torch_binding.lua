-- Multiverso's Torch binding (document 002), call by call. Every worker asserts; worker 0 says so at the end.
local multiverso = require "multiverso"

local function same(got, wanted, what)
  if got ~= wanted then
    error(what .. ": expected " .. tostring(wanted) .. ", received " .. tostring(got), 2)
  end
end

multiverso.init()
multiverso.barrier()
local workers, me = multiverso.num_workers(), multiverso.worker_id()
same(workers, tonumber(arg[1]), "num_workers")
assert(me >= 0 and me < workers, "worker_id is zero-based")
local sum = workers * (workers + 1) / 2

-- ArrayTableHandler: a Lua table, and what get returns (a tensor), are both data for add.
local size = 5
local array = multiverso.ArrayTableHandler:new(size)
for i = 1, size do
  same(array:get()[i], 0, "a new array")
end
multiverso.barrier()
array:add({ me + 1, 2 * (me + 1), 0, 0, -1 })
multiverso.barrier()
local value = array:get()
for i, factor in ipairs { sum, 2 * sum, 0, 0, -workers } do
  same(value[i], factor, "array element " .. i)
end
same(value:dim(), 1, "dimensions of an array")
same(value:nElement(), size, "elements of an array")
local parameters = value:clone():zero()
parameters:copy(array:get())
same(parameters[1], sum, "a copy of the value")
multiverso.barrier()
array:add(parameters)
multiverso.barrier()
same(array:get()[1], sum * (workers + 1), "array after a tensor was added")

-- The size of data must be equal to the size specified in initialization.
local ok, problem = pcall(array.add, array, { 1, 2, 3 })
assert(not ok, "an add of three values to five must be refused")
assert(tostring(problem):find("5") and tostring(problem):find("3"), "the error names both sizes: " .. tostring(problem))

-- MatrixTableHandler, whose constructor the document spells New.
for _, constructor in ipairs { "New", "new" } do
  local num_row, num_col = 11, 4
  local matrix = multiverso.MatrixTableHandler[constructor](multiverso.MatrixTableHandler, num_row, num_col)
  local data = {}
  for r = 1, num_row do
    data[r] = {}
    for c = 1, num_col do
      data[r][c] = (r - 1) * num_col + c
    end
  end
  multiverso.barrier()
  matrix:add(data)
  multiverso.barrier()
  local all = matrix:get()
  same(all:dim(), 2, "dimensions of a matrix")
  same(all:size(1), num_row, "rows")
  same(all:size(2), num_col, "columns")
  same(all[11][4], 44 * workers, "a matrix element")
  multiverso.barrier()
  -- Only the given rows change, and only they are returned.
  matrix:add({ { 1, 1, 1, 1 }, { 2, 2, 2, 2 } }, { 10, 0 })
  multiverso.barrier()
  local rows = matrix:get({ 0, 5, 10 })
  same(rows:size(1), 3, "rows of a get with row_ids")
  same(rows[1][1], 1 * workers + 2 * workers, "row 0")
  same(rows[2][2], 22 * workers, "row 5, which nobody added to")
  same(rows[3][4], 44 * workers + workers, "row 10")
  multiverso.barrier()
end
print("worker " .. me .. " of " .. workers .. " is content")
multiverso.shutdown()
