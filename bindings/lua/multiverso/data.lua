--- Converts users' data (tensors of torch and of this module, Lua tables) to memory for the backend, and back.
local adapter = require "multiverso.torch_adapter"
local check = require "multiverso.check"
local kinds = require "multiverso.kinds"

return function(backend, Tensor, torch)
  local data = {}
  local fail = check.fail

  local function is_torch(value) return torch ~= nil and adapter.is_tensor(torch, value) end

  function data.describe(value)
    if is_torch(value) then return adapter.describe(torch, value) end
    return Tensor.describe(value)
  end

  --- Memory that a handler reuses for conversions. It grows and never shrinks.
  function data.staging(kind) return {kind = kind, size = 0} end

  local function room(staging, count)
    if staging.size < count or not staging.buffer then
      local buffer, words = backend.buffer(staging.kind, count)
      if not buffer then fail("[multiverso] %s", words) end
      staging.buffer, staging.size = buffer, count
    end
    return staging.buffer
  end

  local function put(where, buffer, kind, at, value, index)
    if type(value) ~= "number" then
      fail("[%s] expected a number as value %s; received %s", where, index, data.describe(value))
    end
    if kind.low and not (value % 1 == 0 and value >= kind.low and value <= kind.high) then
      fail("[%s] a table of %s cannot hold value %s: %s", where, kind.name, index, check.number(value))
    end
    buffer[at] = value
  end

  -- Returns the number of values, and the numbers of rows and columns of a nested table.
  local function measure(where, list)
    if type(list[1]) ~= "table" then return #list end
    local cols = #list[1]
    for i = 2, #list do
      if type(list[i]) ~= "table" or #list[i] ~= cols then
        fail("[%s] expected rows of %d values, as the first has; row %d is %s", where, cols, i, data.describe(list[i]))
      end
    end
    return #list * cols, #list, cols
  end

  local function from_table(where, list, kind, staging)
    local count, rows, cols = measure(where, list)
    local buffer = room(staging, count)
    if not rows then
      for i = 1, count do put(where, buffer, kind, i - 1, list[i], i) end
      return buffer, 0, count
    end
    for r = 1, rows do
      local row, start = list[r], (r - 1) * cols - 1
      for c = 1, cols do put(where, buffer, kind, start + c, row[c], ("[%d][%d]"):format(r, c)) end
    end
    return buffer, 0, count, rows, cols
  end

  -- `strict` requires the table's own type. It does not apply to Lua tables, which have no element type.
  local function refuse_type(where, value, kind, strict)
    if strict then
      fail("[%s] a table of %s with strict = true accepts only that type; received %s", where, kind.name, data.describe(value))
    end
    fail("[%s] a table of %s cannot hold a %s without loss", where, kind.name, data.describe(value))
  end

  local function from_torch(where, tensor, kind, staging, strict)
    local fits = strict and adapter.is_exactly or adapter.fits
    if not fits(torch, tensor, kind) then refuse_type(where, tensor, kind, strict) end
    local dense = adapter.dense(torch, tensor, kind)
    local count = dense:nElement()
    local rows, cols
    if dense:dim() == 2 then rows, cols = dense:size(1), dense:size(2) end
    if backend.name == "ffi" and count > 0 then
      staging.keep = dense -- keeps it alive, which the pointer does not
      return dense:data(), 0, count, rows, cols
    end
    local buffer = room(staging, count)
    adapter.read(dense, buffer)
    return buffer, 0, count, rows, cols
  end

  local function from_own(where, tensor, kind, staging, strict)
    local shape, buffer, offset = tensor._shape, tensor._buffer, tensor._offset
    if tensor._kind ~= kind then
      -- A table of integers refuses floating-point and wider integer types, whatever the values are.
      if strict or kind.low and not (tensor._kind.low and tensor._kind.bytes <= kind.bytes) then
        refuse_type(where, tensor, kind, strict)
      end
      local converted = Tensor[kind.tensor](tensor)
      staging.keep, buffer, offset = converted, converted._buffer, 0
    end
    if #shape == 2 then return buffer, offset, tensor._count, shape[1], shape[2] end
    return buffer, offset, tensor._count
  end

  --- Returns buffer, offset, count, and the numbers of rows and columns if the value has two dimensions. Does not copy a
  --- tensor of the right type. The buffer is valid while value and staging exist and until the staging is used again.
  function data.read(where, value, kind, staging, strict)
    if Tensor.is(value) then return from_own(where, value, kind, staging, strict) end
    if is_torch(value) then return from_torch(where, value, kind, staging, strict) end
    if type(value) == "table" then return from_table(where, value, kind, staging) end
    return fail("[%s] expected a tensor or a table of numbers; received %s", where, data.describe(value))
  end

  --- Returns row numbers, counted from 0, as a buffer of int64, and their count.
  function data.read_ids(where, value, rows, staging)
    local count, at
    if Tensor.is(value) then
      local buffer, offset = value._buffer, value._offset
      count, at = value._count, function(i) return tonumber(buffer[offset + i - 1]) end
    elseif is_torch(value) then
      local dense = value:isContiguous() and value or value:contiguous()
      count = dense:nElement()
      local storage = count > 0 and dense:storage()
      local first = count > 0 and dense:storageOffset() - 1
      at = function(i) return storage[first + i] end
    elseif type(value) == "table" then
      count, at = #value, function(i) return value[i] end
    else
      fail("[%s] expected row ids as a table or a tensor; received %s", where, data.describe(value))
    end
    local buffer = room(staging, math.max(count, 1))
    for i = 1, count do
      local id = at(i)
      if not check.whole(id) then
        fail("[%s] expected integers as row ids; id %d is %s", where, i, data.describe(id))
      end
      if id < 0 or id >= rows then
        fail("[%s] row id %s (number %d of %d) is not in 0..%d; row ids are counted from 0", where, check.number(id), i, count, rows - 1)
      end
      buffer[i - 1] = id
    end
    return buffer, count
  end

  --- Returns a tensor for `count` values of a table, which is `into` if given or else a new one of this shape, and the buffer
  --- and offset to write to. Call data.written afterwards.
  function data.target(where, kind, count, shape, into)
    if into == nil and not torch then
      local tensor = Tensor.empty(kind, {shape[1], shape[2]})
      return tensor, tensor._buffer, 0
    end
    if Tensor.is(into) then
      if into._kind == kind and into._count == count then return into, into._buffer, into._offset end
    elseif into == nil or is_torch(into) then
      local tensor = into or adapter.empty(torch, kind, shape)
      if rawequal(adapter.dense(torch, tensor, kind), tensor) and tensor:nElement() == count then
        if backend.name == "ffi" and count > 0 then return tensor, tensor:data(), 0 end
        local buffer, words = backend.buffer(kind, count)
        if not buffer then fail("[%s] %s", where, words) end
        return tensor, buffer, 0
      end
    end
    return fail("[%s] expected a writable dense tensor of %s values of %s; received %s", where, check.number(count),
      kind.name, data.describe(into))
  end

  function data.written(tensor, buffer)
    if backend.name ~= "ffi" and not Tensor.is(tensor) then adapter.write(tensor, buffer) end
    return tensor
  end

  data.id_kind = kinds.int64
  return data
end
