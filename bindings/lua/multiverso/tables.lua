--- ArrayTableHandler and MatrixTableHandler. A table exists until its close, until every worker has dropped its handlers,
--- or until shutdown.
local check = require "multiverso.check"
local kinds = require "multiverso.kinds"
local options = require "multiverso.options"

return function(backend, data, world)
  local fail = check.fail
  local ArrayTableHandler, MatrixTableHandler = {}, {}
  ArrayTableHandler.__index, MatrixTableHandler.__index = ArrayTableHandler, MatrixTableHandler

  local function size_argument(where, what, value)
    if not check.whole(value) or value < 1 then
      fail("[%s] expected %s as an integer of at least 1; received %s", where, what, data.describe(value))
    end
    return value
  end

  -- The common part of both handlers: element type, memory for conversions, and the option list for the creation.
  local function begin(where, class, more)
    local list, kind, strict = options.for_table(where, world.table_options, more, world.master)
    local self = {_generation = world.generation, _kind = kind, _strict = strict, _staging = data.staging(kind)}
    return setmetatable(self, class), list
  end

  -- Returns the result of `read`, which converts the arguments of a collective creation. An error on this worker is raised
  -- on all workers, which would otherwise wait for this one.
  local function read_or_refuse(session, read)
    local good, made, list, initial = pcall(read)
    if good then return made, list, initial end
    backend.refuse(session, tostring(made))
    error(made, 0)
  end

  local function handle_of(self, class, where)
    if getmetatable(self) ~= class or not rawget(self, "_handle") then
      fail("[%s] expected a handler from new, in a call with a colon; received %s", where, data.describe(self))
    end
    world.session(where)
    if self._generation ~= world.generation then
      fail("[%s] the table belongs to a session that was shut down; create a new handler", where)
    end
    return self._handle
  end

  local function wait_argument(where, value)
    if value ~= nil and type(value) ~= "boolean" then
      fail("[%s] expected sync as true or false; received %s", where, data.describe(value))
    end
    return value or false
  end

  local function must(where, good, words)
    if not good then fail("[%s] %s", where, words) end
    return good
  end

  local function close(self, class, name)
    local where = name .. ":close"
    must(where, backend.close(handle_of(self, class, where)))
  end

  -- A one-dimensional table.

  --- Creates an array of `size` values. `init` (a tensor or table) is used on worker 0 only. `more` holds options of the
  --- table, such as {dtype = ...}. Collective.
  function ArrayTableHandler:new(size, init, more)
    local where = "ArrayTableHandler:new"
    local session = world.session(where)
    local made, list, initial = read_or_refuse(session, function()
      size_argument(where, "the size", size)
      local made, list = begin(where, ArrayTableHandler, more)
      if init == nil then return made, list end
      local buffer, offset, count = data.read(where, init, made._kind, made._staging, made._strict)
      if count ~= size then
        fail("[%s] expected %s initial values; received %s", where, check.number(size), data.describe(init))
      end
      return made, list, backend.start_of(buffer, offset)
    end)
    made._size, made._shape = size, {size}
    made._handle = must(where, backend.create_array(session, size, made._kind, list, initial))
    return made
  end

  --- Applies the values with the table's update rule. With sync, returns when they have been applied.
  function ArrayTableHandler:add(values, sync)
    local where = "ArrayTableHandler:add"
    local handle = handle_of(self, ArrayTableHandler, where)
    local wait = wait_argument(where, sync)
    local buffer, offset, count = data.read(where, values, self._kind, self._staging, self._strict)
    if count ~= self._size then
      fail("[%s] the table holds %s values; received %s", where, check.number(self._size), data.describe(values))
    end
    must(where, backend.add(handle, self._kind, nil, 0, buffer, offset, count, wait))
  end

  --- Returns all values as a new one-dimensional tensor, or in `into`, a dense tensor with as many values.
  function ArrayTableHandler:get(into)
    local where = "ArrayTableHandler:get"
    local handle, kind, size = handle_of(self, ArrayTableHandler, where), self._kind, self._size
    local tensor, buffer, offset = data.target(where, kind, size, self._shape, into)
    must(where, backend.get(handle, kind, nil, 0, buffer, offset, size))
    return data.written(tensor, buffer)
  end

  --- Releases the table's memory on all workers. Later calls on the handler raise an error. Collective.
  function ArrayTableHandler:close() close(self, ArrayTableHandler, "ArrayTableHandler") end

  -- A two-dimensional table, read and written as a whole or by rows.

  --- Creates a matrix of `rows` times `cols` values. `init` and `more` are those of arrays. Collective.
  function MatrixTableHandler:new(rows, cols, init, more)
    local where = "MatrixTableHandler:new"
    local session = world.session(where)
    local made, list, initial = read_or_refuse(session, function()
      size_argument(where, "the number of rows", rows)
      size_argument(where, "the number of columns", cols)
      local made, list = begin(where, MatrixTableHandler, more)
      made._rows, made._cols, made._ids = rows, cols, data.staging(data.id_kind)
      if init == nil then return made, list end
      local buffer, offset = made:_read(where, init, rows)
      return made, list, backend.start_of(buffer, offset)
    end)
    made._handle = must(where, backend.create_matrix(session, rows, cols, made._kind, list, initial))
    return made
  end
  MatrixTableHandler.New = MatrixTableHandler.new
  ArrayTableHandler.New = ArrayTableHandler.new

  -- Returns the memory of `values`, which must have `n` rows.
  function MatrixTableHandler:_read(where, values, n)
    local buffer, offset, count, rows, cols = data.read(where, values, self._kind, self._staging, self._strict)
    if count ~= n * self._cols or (rows and count > 0 and (rows ~= n or cols ~= self._cols)) then
      fail("[%s] expected %s x %s values; received %s", where, check.number(n), check.number(self._cols),
        rows and not data.describe(values):find(" x ") and ("table of %d x %d"):format(rows, cols) or data.describe(values))
    end
    return buffer, offset, count
  end

  --- Applies the values with the table's update rule, to all rows or to those of row_ids, which count from 0:
  --- add(values), add(values, row_ids), add(values, sync) or add(values, row_ids, sync).
  function MatrixTableHandler:add(values, row_ids, sync)
    local where = "MatrixTableHandler:add"
    local handle = handle_of(self, MatrixTableHandler, where)
    if type(row_ids) == "boolean" and sync == nil then row_ids, sync = nil, row_ids end
    local wait = wait_argument(where, sync)
    local ids, n
    if row_ids ~= nil then ids, n = data.read_ids(where, row_ids, self._rows, self._ids) end
    local buffer, offset, count = self:_read(where, values, n or self._rows)
    must(where, backend.add(handle, self._kind, ids, n or 0, buffer, offset, count, wait))
  end

  --- Returns all rows, or those of row_ids in that order, as a new two-dimensional tensor, or in `into` as with arrays.
  function MatrixTableHandler:get(row_ids, into)
    local where = "MatrixTableHandler:get"
    local handle, kind = handle_of(self, MatrixTableHandler, where), self._kind
    local ids, n
    if row_ids ~= nil then ids, n = data.read_ids(where, row_ids, self._rows, self._ids) end
    local shape = {n or self._rows, self._cols}
    local count = shape[1] * shape[2]
    local tensor, buffer, offset = data.target(where, kind, count, shape, into)
    must(where, backend.get(handle, kind, ids, n or 0, buffer, offset, count))
    return data.written(tensor, buffer)
  end

  --- Releases the table's memory on all workers. Later calls on the handler raise an error. Collective.
  function MatrixTableHandler:close() close(self, MatrixTableHandler, "MatrixTableHandler") end

  return ArrayTableHandler, MatrixTableHandler
end
