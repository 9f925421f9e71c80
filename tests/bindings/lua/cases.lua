--- Every line of Multiverso's Lua document, errors, and lifetimes, under any Lua and number of processes.
local harness = require "harness"
local multiverso = require "multiverso"
local case, equal, raises, times = harness.case, harness.equal, harness.raises, harness.times

local function options(more)
  local all = {log_level = "off", timeout = 600}
  for name, value in pairs(more or {}) do all[name] = value end
  return all
end

local function session(more, body)
  multiverso.init(options(more))
  body(multiverso.num_workers(), multiverso.worker_id())
  multiverso.shutdown()
end

case("init_barrier_shutdown", function()
  multiverso.init()
  multiverso.barrier()
  multiverso.shutdown()
  multiverso.init(true)
  multiverso.shutdown()
  multiverso.init(false)
  multiverso.shutdown()
end)

case("numbers_of_workers_and_servers", function()
  session(nil, function(workers, id)
    equal(workers, tonumber(os.getenv("OMPI_COMM_WORLD_SIZE") or 1))
    equal(id, tonumber(os.getenv("OMPI_COMM_WORLD_RANK") or 0))
    equal(multiverso.server_id(), id)
  end)
end)

case("array_of_a_table_and_of_a_tensor", function()
  session(nil, function(workers)
    local array = multiverso.ArrayTableHandler:new(5)
    equal(array:get(), times(5, 0))
    multiverso.barrier()
    array:add{1, 2, 3, 4, 5}
    array:add(multiverso.FloatTensor{1, 1, 1, 1, 1})
    array:add(multiverso.DoubleTensor{1, 1, 1, 1, 1})
    multiverso.barrier()
    equal(array:get(), {3 * workers, 4 * workers, 5 * workers, 6 * workers, 7 * workers})
  end)
end)

case("rounds_of_two_asynchronous_adds_a_barrier_and_a_get", function()
  session(nil, function(workers)
    local size = 1000
    local array = multiverso.ArrayTableHandler:new(size)
    local delta = {}
    for i = 1, size do delta[i] = i end
    delta = multiverso.FloatTensor(delta)
    for round = 1, 10 do
      array:add(delta)
      array:add(delta)
      multiverso.barrier()
      local values = array:get()
      for i = 1, size do
        if values[i] ~= round * i * 2 * workers then error(("round %d: [%d] = %s"):format(round, i, values[i])) end
      end
      multiverso.barrier()
    end
  end)
end)

case("add_with_true_is_complete_on_return", function()
  session(nil, function(_, id)
    local array = multiverso.ArrayTableHandler:new(3)
    if id == 0 then
      array:add({1, 2, 3}, true)
      equal(array:get(), {1, 2, 3})
    end
    multiverso.barrier()
    local matrix = multiverso.MatrixTableHandler:new(2, 2)
    if id == 0 then
      matrix:add({{1, 2}, {3, 4}}, true)
      matrix:add({{5, 6}}, {1}, true)
      equal(matrix:get(), {{1, 2}, {8, 10}})
    end
    multiverso.barrier()
  end)
end)

case("initial_values_are_the_masters", function()
  session(nil, function(_, id)
    local array = multiverso.ArrayTableHandler:new(3, id == 0 and {1, 2, 3} or {7, 7, 7})
    equal(array:get(), {1, 2, 3})
    local matrix = multiverso.MatrixTableHandler:new(2, 2, multiverso.FloatTensor{{1, 2}, {3, 4}})
    equal(matrix:get(), {{1, 2}, {3, 4}})
    local rows = multiverso.FloatTensor{{9, 9}, {1, 2}}
    equal(multiverso.ArrayTableHandler:new(2, rows[2]):get(), {1, 2})
  end)
end)

case("matrix_of_eleven_rows", function()
  session(nil, function(workers)
    local rows, cols = 11, 10
    local matrix = multiverso.MatrixTableHandler:New(rows, cols)
    local ids = {0, 1, 5, 10}
    local whole, part = {}, {}
    for r = 1, rows do
      whole[r] = {}
      for c = 1, cols do whole[r][c] = (r - 1) * cols + c end
    end
    for i, id in ipairs(ids) do part[i] = whole[id + 1] end
    for round = 1, 5 do
      matrix:add(whole)
      matrix:add(part, ids)
      multiverso.barrier()
      local all, some = matrix:get(), matrix:get(ids)
      equal(all:size(), {rows, cols})
      equal(some:size(), {4, cols})
      for r = 1, rows do
        local twice = r == 1 or r == 2 or r == 6 or r == 11
        for c = 1, cols do equal(all[r][c], whole[r][c] * round * workers * (twice and 2 or 1)) end
      end
      for i, id in ipairs(ids) do equal(some[i], all[id + 1]:totable()) end
      multiverso.barrier()
    end
  end)
end)

case("row_ids_in_tensors_in_any_order_twice_and_none", function()
  session(nil, function()
    local matrix = multiverso.MatrixTableHandler:new(3, 2, {{1, 2}, {3, 4}, {5, 6}})
    equal(matrix:get(multiverso.LongTensor{2, 0, 2}), {{5, 6}, {1, 2}, {5, 6}})
    equal(matrix:get(multiverso.FloatTensor{1}), {{3, 4}})
    matrix:add({}, {})
    equal(matrix:get({}):nElement(), 0)
  end)
end)

case("synchronous_tables_show_all_workers_the_same", function()
  session({sync = true}, function(workers, id)
    local array = multiverso.ArrayTableHandler:new(4)
    for round = 1, 5 do
      array:add(times(4, id + 1))
      equal(array:get(), times(4, round * workers * (workers + 1) / 2))
    end
  end)
end)

case("synchronous_matrices_by_rows", function()
  session({sync = true}, function(workers, id)
    local matrix = multiverso.MatrixTableHandler:new(11, 2)
    local sum = workers * (workers + 1) / 2
    for round = 1, 3 do
      matrix:add({{id + 1, 1}, {1, id + 1}}, {10, 0}, round == 2)
      equal(matrix:get{0, 5, 10}, {{round * workers, round * sum}, {0, 0}, {round * sum, round * workers}})
    end
  end)
end)

case("updaters_and_their_options", function()
  session({updater_type = "sgd"}, function(workers)
    local array = multiverso.ArrayTableHandler:new(2, {10, 10})
    array:add{1, 2}
    multiverso.barrier()
    equal(array:get(), {10 - workers, 10 - 2 * workers})
  end)
  session({updater = {rule = "sgd", learning_rate = 0.5}}, function(workers)
    local array = multiverso.ArrayTableHandler:new(1, nil, {name = "halves"})
    array:add{2}
    multiverso.barrier()
    equal(array:get(), {-workers})
  end)
end)

case("other_element_types", function()
  session(nil, function(workers)
    for _, dtype in ipairs{"float64", "int32", "int64"} do
      local array = multiverso.ArrayTableHandler:new(2, {1, 2}, {dtype = dtype})
      array:add{2 ^ 24 + 1, 1}
      multiverso.barrier()
      equal(array:get(), {1 + workers * (2 ^ 24 + 1), 2 + workers})
      multiverso.barrier()
    end
    local whole = multiverso.ArrayTableHandler:new(2, nil, {dtype = "int32"})
    raises(function() whole:add{1, 1.5} end, "int32", "1.5")
    raises(function() whole:add(multiverso.FloatTensor{1, 1.5}) end, "int32", "FloatTensor")
  end)
end)

case("an_integer_table_looks_at_types_and_not_at_values", function()
  session(nil, function(workers)
    local narrow = multiverso.ArrayTableHandler:new(2, nil, {dtype = "int32"})
    local wide = multiverso.ArrayTableHandler:new(2, nil, {dtype = "int64"})
    wide:add(multiverso.IntTensor{1, 2})
    raises(function() narrow:add(multiverso.LongTensor{0, 0}) end, "int32", "LongTensor")
    raises(function() wide:add(multiverso.DoubleTensor{0, 0}) end, "int64", "DoubleTensor")
    multiverso.barrier()
    equal(wide:get(), {workers, 2 * workers})
  end)
end)

case("strict_accepts_the_exact_type_only", function()
  session(nil, function(workers)
    local array = multiverso.ArrayTableHandler:new(2, {0, 0}, {strict = true})
    local matrix = multiverso.MatrixTableHandler:new(1, 2, nil, {strict = true, dtype = "int64"})
    array:add(multiverso.FloatTensor{1, 2})
    raises(function() array:add(multiverso.DoubleTensor{1, 2}) end, "float32", "strict", "DoubleTensor")
    raises(function() matrix:add(multiverso.IntTensor{{1, 2}}) end, "int64", "strict", "IntTensor")
    local first = multiverso.DoubleTensor{1, 2}
    raises(function() multiverso.ArrayTableHandler:new(2, first, {strict = true}) end, "strict", "DoubleTensor")
    raises(function() multiverso.ArrayTableHandler:new(2, nil, {strict = "maybe"}) end, "strict", "maybe")
    multiverso.barrier()
    equal(array:get(), {workers, 2 * workers})
  end)
end)

case("a_wrong_argument_of_one_worker_is_an_error_on_all", function()
  session(nil, function(workers, id)
    local last = id == workers - 1
    raises(function() multiverso.ArrayTableHandler:new(3, last and {1, 2} or {1, 2, 3}) end, "3 initial values", "table of 2")
    raises(function() multiverso.MatrixTableHandler:new(2, 1, {{1}, {last and "a" or 1}}) end, '"a"')
    raises(function() multiverso.ArrayTableHandler:new(3, nil, {dtype = last and "float16" or "float32"}) end, "float16")
    raises(function() multiverso.ArrayTableHandler:new(last and -1 or 3) end, "-1")
    equal(multiverso.ArrayTableHandler:new(2, {1, 2}):get(), {1, 2})
  end)
end)

case("calls_before_init_and_after_shutdown", function()
  for _, name in ipairs{"barrier", "shutdown", "num_workers", "worker_id", "server_id"} do
    raises(function() multiverso[name]() end, "multiverso." .. name, "init")
  end
  raises(function() multiverso.ArrayTableHandler:new(3) end, "ArrayTableHandler:new", "init")
  raises(function() multiverso.MatrixTableHandler:new(3, 3) end, "MatrixTableHandler:new", "init")
  local array
  session(nil, function() array = multiverso.ArrayTableHandler:new(3) end)
  raises(function() array:get() end, "init")
  session(nil, function()
    raises(function() array:get() end, "shut down")
    raises(function() multiverso.init() end, "already open")
    multiverso.barrier()
  end)
end)

case("wrong_arguments_name_what_came_and_the_process_lives", function()
  raises(function() multiverso.init("sync") end, "init", '"sync"')
  raises(function() multiverso.init{snyc = true} end, "snyc", 'did you mean "sync"')
  raises(function() multiverso.init{sync = 1} end, "sync", "number 1")
  raises(function() multiverso.init{updater_type = "adma"} end, "adma", "adagrad")
  raises(function() multiverso.init{timeout = "soon"} end, "timeout", "soon")
  session(nil, function()
    for _, size in ipairs{0, -1, 2.5, "ten", {}} do
      raises(function() multiverso.ArrayTableHandler:new(size) end, "ArrayTableHandler:new", "size")
    end
    raises(function() multiverso.MatrixTableHandler:new(3) end, "columns", "nil")
    raises(function() multiverso.ArrayTableHandler:new(3, {1, 2}) end, "3 initial values", "table of 2")
    raises(function() multiverso.ArrayTableHandler:new(3, nil, {dtype = "float16"}) end, "float16", "float32")
    local array = multiverso.ArrayTableHandler:new(3)
    local matrix = multiverso.MatrixTableHandler:new(4, 2)
    raises(function() array:add{1, 2} end, "ArrayTableHandler:add", "3 values", "table of 2")
    raises(function() array:add(multiverso.FloatTensor(4)) end, "3 values", "FloatTensor of 4")
    raises(function() array:add{1, "two", 3} end, "value 2", '"two"')
    raises(function() array:add(5) end, "number 5")
    raises(function() array:add() end, "nil")
    raises(function() array:add({1, 2, 3}, "yes") end, "sync", '"yes"')
    raises(function() array.get() end, "colon", "nil")
    raises(function() matrix:add{{1, 2}, {3}} end, "row 2", "table of 1")
    raises(function() matrix:add{{1, 2, 3, 4}, {1, 2, 3, 4}} end, "4 x 2", "2 x 4")
    raises(function() matrix:add({{1, 2}}, {4}) end, "row id 4", "0..3")
    raises(function() matrix:add({{1, 2}}, {0, 1}) end, "2 x 2")
    raises(function() matrix:get{-1} end, "row id -1", "0..3")
    raises(function() matrix:get{0.5} end, "0.5")
    raises(function() matrix:get{0, "a"} end, "id 2", '"a"')
    raises(function() matrix:get(1) end, "number 1")
    multiverso.barrier()
    equal(array:get(), {0, 0, 0})
    equal(matrix:get(), times(4, {0, 0}))
  end)
end)

case("collecting_a_handler_leaves_the_table", function()
  session(nil, function(workers)
    local weak = setmetatable({}, {__mode = "v"})
    weak[1] = multiverso.ArrayTableHandler:new(50000)
    weak[1]:add(times(50000, 1))
    local kept = multiverso.ArrayTableHandler:new(2)
    for _ = 1, 3 do collectgarbage() end
    equal(weak[1], nil)
    kept:add{1, 1}
    multiverso.barrier()
    equal(kept:get(), times(2, workers))
  end)
end)

case("a_table_outlives_the_handler_of_one_worker", function()
  session(nil, function(workers, id)
    local shared = multiverso.ArrayTableHandler:new(3)
    multiverso.barrier()
    -- Worker 0 drops its handler. The table that the others use stays.
    if id == 0 then
      shared:add{1, 2, 3}
      shared = nil
      for _ = 1, 3 do collectgarbage() end
    end
    multiverso.barrier()
    if shared then
      shared:add{10, 10, 10}
    end
    multiverso.barrier()
    if shared then
      local others = 10 * (workers - 1)
      equal(shared:get(), {others + 1, others + 2, others + 3})
    end
  end)
end)

case("a_closed_table_refuses_calls_and_gives_its_memory_back", function()
  session(nil, function(workers)
    local kept = multiverso.ArrayTableHandler:new(3)
    local zeros = multiverso.FloatTensor(1000, 500)
    for _ = 1, 20 do
      local matrix = multiverso.MatrixTableHandler:new(1000, 500) -- 2 MB
      matrix:add(zeros, true)
      matrix:close()
      raises(function() matrix:get() end, "MatrixTableHandler:get", "the table was closed")
      raises(function() matrix:close() end, "the table was closed")
      matrix = nil
      collectgarbage()
    end
    local resident = io.open("/proc/self/status"):read("*a"):match("VmRSS:%s+(%d+) kB")
    assert(tonumber(resident) < 40000, resident .. " kB are resident after 20 closed tables of 2 MB")
    local array = multiverso.ArrayTableHandler:new(2)
    array:close()
    raises(function() array:add({1, 2}) end, "ArrayTableHandler:add", "the table was closed")
    kept:add({1, 2, 3}, true)
    multiverso.barrier()
    equal(kept:get(), {workers, 2 * workers, 3 * workers})
  end)
end)

case("gotten_tensors_do_not_change_and_share_nothing", function()
  session(nil, function(_, id)
    local array = multiverso.ArrayTableHandler:new(30000)
    local before = array:get()
    multiverso.barrier()
    if id == 0 then array:add(times(30000, 1), true) end
    multiverso.barrier()
    local after = array:get()
    for _ = 1, 200 do array:get() end
    equal({before:sum(), after:sum()}, {0, 30000})
  end)
end)

case("a_get_may_write_to_a_tensor_that_is_there", function()
  session(nil, function()
    local array = multiverso.ArrayTableHandler:new(3, {1, 2, 3})
    local out = multiverso.FloatTensor(2, 3)
    local row = out[2]
    assert(rawequal(array:get(row), row))
    equal(out, {{0, 0, 0}, {1, 2, 3}})
    local matrix = multiverso.MatrixTableHandler:new(2, 3, {{1, 2, 3}, {4, 5, 6}})
    matrix:get({1, 0}, out)
    equal(out, {{4, 5, 6}, {1, 2, 3}})
    equal(matrix:get(nil, out), {{1, 2, 3}, {4, 5, 6}})
    raises(function() array:get(out) end, "3 values", "FloatTensor of 2 x 3")
    raises(function() array:get(multiverso.DoubleTensor(3)) end, "float32", "DoubleTensor of 3")
    raises(function() array:get{1, 2, 3} end, "table of 3")
  end)
end)

case("the_small_tensor", function()
  local t = multiverso.FloatTensor{{1, 2, 3}, {4, 5, 6}}
  equal({t:size(1), t:size(2), t:dim(), t:nElement()}, {2, 3, 2, 6})
  equal(t[2], {4, 5, 6})
  t[1][2] = 9
  equal({t[1][2], t[{1, 2}], t[{2, 3}]}, {9, 9, 6})
  t[2] = {7, 8, 9}
  equal(t, {{1, 9, 3}, {7, 8, 9}})
  local copy = t:clone():fill(2)
  equal((t + copy - 1) / 2 * 2, {{2, 10, 4}, {8, 9, 10}})
  equal(-t + 2 * t, t:totable())
  equal(t:resize(6), {1, 9, 3, 7, 8, 9})
  equal(multiverso.FloatTensor(2, 3):copy(t), {{1, 9, 3}, {7, 8, 9}})
  equal({t:sum(), t:max(), t:min(), t:dot(t)}, {37, 9, 1, 285})
  equal(t:narrow(1, 2, 2):mul(0), {0, 0})
  equal({t:data()[0], t:data()[1], t:data()[5]}, {1, 0, 9})
  equal(multiverso.FloatTensor(3):add(2, multiverso.FloatTensor{1, 2, 3}), {2, 4, 6})
  equal(t == t:clone(), true)
  local words = tostring(multiverso.FloatTensor{{1, 2}})
  assert(words:find("1.0000") and words:find("FloatTensor of size 1x2"), words)
  raises(function() return t[7] end, "index 7", "1..6")
  raises(function() t[1] = "a" end, '"a"')
  raises(function() t:copy(multiverso.FloatTensor(2)) end, "FloatTensor of 6", "FloatTensor of 2")
  raises(function() return t + {} end, "expected a number or a tensor")
end)

harness.run()
