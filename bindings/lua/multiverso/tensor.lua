--- A small dense tensor for programs without torch, with torch's interface: dimensions and indices start at 1, `t[i]` of a
--- matrix is a view of row i, operators create new tensors, and methods such as `t:add(x)` work in place.
local check = require "multiverso.check"
local kinds = require "multiverso.kinds"

return function(backend)
  local Tensor, meta, methods = {}, {}, {}
  local fail = check.fail

  function Tensor.is(value) return getmetatable(value) == meta end

  local function words_of(shape) return #shape == 0 and "no" or table.concat(shape, " x ") end

  --- Describes a tensor as "multiverso.FloatTensor of 2 x 3", and other values as check.describe does.
  function Tensor.describe(value)
    if Tensor.is(value) then return ("multiverso.%s of %s"):format(value._kind.tensor, words_of(value._shape)) end
    return check.describe(value)
  end
  local describe = Tensor.describe

  local function count_of(shape)
    local count = 1
    for _, n in ipairs(shape) do count = count * n end
    return #shape == 0 and 0 or count
  end

  local function checked_shape(where, ...)
    local shape = {...}
    if #shape == 1 and type(shape[1]) == "table" then shape = {(unpack or table.unpack)(shape[1])} end
    for i, n in ipairs(shape) do
      if not check.whole(n) or n < 0 then fail("[%s] expected a size of 0 or more; received %s", where, describe(n)) end
      shape[i] = math.floor(n)
    end
    return shape
  end

  local function over(kind, buffer, offset, shape)
    return setmetatable({_kind = kind, _buffer = buffer, _offset = offset, _shape = shape, _count = count_of(shape)}, meta)
  end

  --- Creates a tensor with undefined contents.
  function Tensor.empty(kind, shape)
    local buffer, words = backend.buffer(kind, count_of(shape))
    if not buffer then fail("[Tensor] %s", words) end
    return over(kind, buffer, 0, shape)
  end

  local function put(tensor, at, value)
    local kind = tensor._kind
    if type(value) ~= "number" then fail("[Tensor] expected a number; received %s", describe(value)) end
    if kind.low and not (value % 1 == 0 and value >= kind.low and value <= kind.high) then
      fail("[Tensor] a tensor of %s cannot hold %s", kind.name, check.number(value))
    end
    tensor._buffer[at] = value
  end

  local function value_at(tensor, at)
    local value = tensor._buffer[at]
    return type(value) == "number" and value or tonumber(value)
  end

  local function shape_of_table(list)
    local shape, level = {}, list
    while type(level) == "table" do
      shape[#shape + 1] = #level
      level = level[1]
    end
    return shape
  end

  local function fill_from_table(tensor, list, shape, depth, at)
    if type(list) ~= "table" or #list ~= shape[depth] then
      fail("[Tensor] expected a table of %d values at depth %d; received %s", shape[depth], depth, describe(list))
    end
    for i = 1, #list do
      if depth == #shape then
        put(tensor, at, list[i])
        at = at + 1
      else
        at = fill_from_table(tensor, list[i], shape, depth + 1, at)
      end
    end
    return at
  end

  --- Creates a tensor: FloatTensor(n), FloatTensor(rows, cols), FloatTensor{1, 2} or FloatTensor{{1, 2}, {3, 4}}. Tensors
  --- that are created by size hold zeros.
  local function constructor(kind)
    return function(...)
      local first = ...
      if Tensor.is(first) then return Tensor.empty(kind, {(unpack or table.unpack)(first._shape)}):copy(first) end
      if type(first) == "table" then
        local shape = shape_of_table(first)
        local made = Tensor.empty(kind, shape)
        fill_from_table(made, first, shape, 1, 0)
        return made
      end
      return Tensor.empty(kind, checked_shape(kind.tensor, ...)):zero()
    end
  end
  for _, name in ipairs(kinds.names) do Tensor[kinds[name].tensor] = constructor(kinds[name]) end

  -- Indexing.

  local function position(tensor, index)
    local first = tensor._shape[1] or 0
    if not check.whole(index) or index < 1 or index > first then
      fail("[Tensor] index %s is not in 1..%d of a %s", check.number(index), first, describe(tensor))
    end
    return math.floor(index) - 1
  end

  local function row(tensor, index)
    local shape = {}
    for i = 2, #tensor._shape do shape[i - 1] = tensor._shape[i] end
    return over(tensor._kind, tensor._buffer, tensor._offset + position(tensor, index) * count_of(shape), shape)
  end

  function meta.__index(self, key)
    if type(key) == "number" then
      if #self._shape == 1 then return value_at(self, self._offset + position(self, key)) end
      return row(self, key)
    end
    if type(key) == "table" then
      local found = self
      for _, index in ipairs(key) do
        if not Tensor.is(found) then fail("[Tensor] %d indices are too many for a %s", #key, describe(self)) end
        found = found[index]
      end
      return found
    end
    return methods[key]
  end

  function meta.__newindex(self, key, value)
    if type(key) == "table" then
      local found = self
      for i = 1, #key - 1 do found = found[key[i]] end
      found[key[#key]] = value
    elseif type(key) ~= "number" then
      fail("[Tensor] a tensor has no field %s", describe(key))
    elseif #self._shape == 1 then
      put(self, self._offset + position(self, key), value)
    elseif type(value) == "number" then
      row(self, key):fill(value)
    else
      row(self, key):copy(value)
    end
  end

  -- Shape.

  --- Returns all sizes as a table, or the size of one dimension.
  function methods:size(dimension)
    if dimension == nil then return {(unpack or table.unpack)(self._shape)} end
    local size = self._shape[dimension]
    if not size then fail("[Tensor:size] a %s has no dimension %s", describe(self), tostring(dimension)) end
    return size
  end
  --- Returns the number of dimensions.
  function methods:dim() return #self._shape end
  methods.nDimension = methods.dim
  --- Returns the number of values.
  function methods:nElement() return self._count end
  methods.numel = methods.nElement
  --- Returns true: these tensors are always dense.
  function methods:isContiguous() return true end
  --- Returns the tensor itself, which is dense.
  function methods:contiguous() return self end
  --- Returns the name of the class, such as "multiverso.FloatTensor".
  function methods:type() return "multiverso." .. self._kind.tensor end
  --- Returns the memory, indexed from 0: a pointer under LuaJIT, otherwise a checked buffer, which views do not have.
  function methods:data()
    if backend.name == "ffi" then return self._buffer + self._offset end
    if self._offset ~= 0 then fail("[Tensor:data] the memory of a view is available under LuaJIT only; use clone() first") end
    return self._buffer
  end

  --- Changes the shape in place. Existing values stay in order; new ones are undefined.
  function methods:resize(...)
    local shape = checked_shape("Tensor:resize", ...)
    local count = count_of(shape)
    if count > self._count then
      local grown = Tensor.empty(self._kind, shape)
      backend.copy(self._kind, grown._buffer, 0, self._buffer, self._offset, self._count)
      rawset(self, "_buffer", grown._buffer)
      rawset(self, "_offset", 0)
    end
    rawset(self, "_shape", shape)
    rawset(self, "_count", count)
    return self
  end

  --- Returns a view of the same memory in another shape, in which one size may be -1.
  function methods:view(...)
    local sizes, open, rest = {...}, nil, 1
    for i, n in ipairs(sizes) do
      if n == -1 then open = i else rest = rest * n end
    end
    if open then sizes[open] = rest > 0 and self._count / rest or 0 end
    local shape = checked_shape("Tensor:view", sizes)
    if count_of(shape) ~= self._count then
      fail("[Tensor:view] %s cannot be viewed as %s", describe(self), words_of(shape))
    end
    return over(self._kind, self._buffer, self._offset, shape)
  end

  --- Returns a view of `size` rows (elements of a vector) from `first` on. Only the first dimension can be narrowed.
  function methods:narrow(dimension, first, size)
    if dimension ~= 1 then fail("[Tensor:narrow] only dimension 1 can be narrowed; received %s", describe(dimension)) end
    local start = position(self, first)
    if not check.whole(size) or size < 0 or start + size > self._shape[1] then
      fail("[Tensor:narrow] %s rows from %s on are not in a %s", tostring(size), check.number(first), describe(self))
    end
    local shape = self:size()
    shape[1] = size
    local each = self._shape[1] > 0 and self._count / self._shape[1] or 0
    return over(self._kind, self._buffer, self._offset + math.floor(start * each), shape)
  end

  -- Contents.

  --- Copies the values of a tensor or table with as many elements, of any shape and type.
  function methods:copy(source)
    if type(source) == "table" and not getmetatable(source) then source = Tensor[self._kind.tensor](source) end
    if not Tensor.is(source) then fail("[Tensor:copy] expected a tensor; received %s", describe(source)) end
    if source._count ~= self._count then
      fail("[Tensor:copy] expected as many values as in a %s; received a %s", describe(self), describe(source))
    end
    if source._kind == self._kind then
      backend.copy(self._kind, self._buffer, self._offset, source._buffer, source._offset, self._count)
    elseif self._kind.low then
      for i = 0, self._count - 1 do put(self, self._offset + i, value_at(source, source._offset + i)) end
    else
      local to, from, at, start = self._buffer, source._buffer, self._offset, source._offset
      for i = 0, self._count - 1 do to[at + i] = tonumber(from[start + i]) end
    end
    return self
  end

  --- Returns a copy.
  function methods:clone() return Tensor.empty(self._kind, self:size()):copy(self) end
  --- Returns the values as a FloatTensor, or the tensor itself if it is one.
  function methods:float() return self._kind == kinds.float32 and self or Tensor.FloatTensor(self) end
  --- Returns the values as a DoubleTensor, or the tensor itself if it is one.
  function methods:double() return self._kind == kinds.float64 and self or Tensor.DoubleTensor(self) end

  --- Returns the values as a Lua table, nested like the shape.
  function methods:totable()
    local list = {}
    for i = 1, self._shape[1] or 0 do
      local value = self[i]
      list[i] = type(value) == "number" and value or value:totable()
    end
    return list
  end

  --- Sets all values to one number.
  function methods:fill(value)
    if self._count > 0 then put(self, self._offset, value) end
    local buffer, from = self._buffer, self._offset
    for i = from, from + self._count - 1 do buffer[i] = value end
    return self
  end
  --- Sets all values to 0.
  function methods:zero() return self:fill(0) end

  --- Replaces each value by change(value), unless that returns nil.
  function methods:apply(change)
    for i = self._offset, self._offset + self._count - 1 do
      local value = change(value_at(self, i))
      if value ~= nil then put(self, i, value) end
    end
    return self
  end

  -- Arithmetic. `step(a, b)` is applied to two tensors, or to a tensor and a number.

  local function in_place(name, target, operand, step)
    local where = "Tensor:" .. name
    if type(operand) == "number" then
      for i = target._offset, target._offset + target._count - 1 do put(target, i, step(value_at(target, i), operand)) end
      return target
    end
    if not Tensor.is(operand) then fail("[%s] expected a number or a tensor; received %s", where, describe(operand)) end
    if operand._count ~= target._count then
      fail("[%s] sizes differ: %s and %s", where, describe(target), describe(operand))
    end
    local a, b, at, from = target._buffer, operand._buffer, target._offset, operand._offset
    if target._kind.low then
      for i = 0, target._count - 1 do put(target, at + i, step(value_at(target, at + i), value_at(operand, from + i))) end
    else
      for i = 0, target._count - 1 do a[at + i] = step(a[at + i], tonumber(b[from + i])) end
    end
    return target
  end

  local function plus(a, b) return a + b end
  local function minus(a, b) return a - b end
  local function times(a, b) return a * b end
  local function over_by(a, b) return a / b end

  --- Adds in place: add(number), add(tensor), or add(number, tensor), which adds the product.
  function methods:add(first, second)
    if second == nil then return in_place("add", self, first, plus) end
    if type(first) ~= "number" then fail("[Tensor:add] expected a number first; received %s", describe(first)) end
    return in_place("add", self, second, function(a, b) return a + first * b end)
  end
  --- Multiplies in place by a number.
  function methods:mul(number) return in_place("mul", self, number, times) end
  --- Divides in place by a number.
  function methods:div(number) return in_place("div", self, number, over_by) end
  --- Multiplies in place by another tensor, elementwise.
  function methods:cmul(other) return in_place("cmul", self, other, times) end
  --- Divides in place by another tensor, elementwise.
  function methods:cdiv(other) return in_place("cdiv", self, other, over_by) end
  --- Subtracts another tensor or a number in place.
  function methods:csub(other) return in_place("csub", self, other, minus) end

  local function folded(tensor, start, step)
    local result = start
    for i = tensor._offset, tensor._offset + tensor._count - 1 do result = step(result, value_at(tensor, i)) end
    return result
  end
  --- Returns the sum of all values.
  function methods:sum() return folded(self, 0, plus) end
  --- Returns the mean of all values.
  function methods:mean() return folded(self, 0, plus) / self._count end
  --- Returns the largest value.
  function methods:max() return folded(self, -math.huge, math.max) end
  --- Returns the smallest value.
  function methods:min() return folded(self, math.huge, math.min) end
  --- Returns the Euclidean norm.
  function methods:norm() return math.sqrt(folded(self, 0, function(a, b) return a + b * b end)) end
  --- Returns the inner product with another tensor of as many values.
  function methods:dot(other) return self:clone():cmul(other):sum() end

  meta.__add = function(a, b)
    if Tensor.is(a) then return a:clone():add(b) end
    return b:clone():add(a)
  end
  meta.__sub = function(a, b)
    if not Tensor.is(a) then return b:clone():mul(-1):add(a) end
    return in_place("-", a:clone(), b, minus)
  end
  --- Returns a number times a tensor, or the inner product of two vectors, as in torch. cmul multiplies elementwise.
  meta.__mul = function(a, b)
    if not Tensor.is(a) then return b:clone():mul(a) end
    if not Tensor.is(b) then return a:clone():mul(b) end
    if #a._shape ~= 1 or #b._shape ~= 1 then
      fail("[Tensor:*] expected a number or two vectors; received %s and %s", describe(a), describe(b))
    end
    return a:dot(b)
  end
  meta.__div = function(a, b)
    if not Tensor.is(a) then fail("[Tensor:/] expected a tensor on the left; received %s", describe(a)) end
    return a:clone():div(b)
  end
  meta.__unm = function(a) return a:clone():mul(-1) end
  meta.__eq = function(a, b)
    if a._count ~= b._count or words_of(a._shape) ~= words_of(b._shape) then return false end
    for i = 0, a._count - 1 do
      if value_at(a, a._offset + i) ~= value_at(b, b._offset + i) then return false end
    end
    return true
  end

  meta.__tostring = function(self)
    local lines = {}
    local function line(values)
      local words = {}
      for i, value in ipairs(values) do words[i] = ("%10.4f"):format(value) end
      return table.concat(words)
    end
    if #self._shape == 1 then
      for i = 1, self._shape[1] do lines[i] = line{self[i]} end
    elseif #self._shape > 1 then
      local cols = self._shape[#self._shape]
      local flat = self:view(-1, cols)
      for i = 1, flat._shape[1] do lines[i] = line(flat[i]:totable()) end
    end
    lines[#lines + 1] = ("[%s of size %s]"):format(self:type(), table.concat(self._shape, "x"))
    return table.concat(lines, "\n")
  end

  return Tensor
end
