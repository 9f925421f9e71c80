--- A replacement of torch7 for tests: the names and documented behaviour that the adapter and nn's usage need. The
--- memory is LuaJIT's if available, otherwise a Lua table. A tensor may be strided (`:t()`), as torch's.
local good, ffi = pcall(require, "ffi")
local torch = {}
local ctypes = {Float = "float", Double = "double", Int = "int32_t", Long = "int64_t", Byte = "uint8_t"}
local classes = {}

function torch.typename(value)
  local meta = type(value) == "table" and getmetatable(value)
  return meta and meta.typename or nil
end
function torch.type(value) return torch.typename(value) or type(value) end
function torch.isTensor(value) return (torch.typename(value) or ""):find("Tensor$") ~= nil end

for short, ctype in pairs(ctypes) do
  local Storage, Tensor = {}, {}
  local name = "torch." .. short .. "Tensor"
  local storage_meta = {typename = "torch." .. short .. "Storage", __index = function(self, i)
    if type(i) ~= "number" then return Storage[i] end
    assert(i >= 1 and i <= self._n, "storage index")
    return tonumber(self._memory[i - 1])
  end, __newindex = function(self, i, value)
    assert(i >= 1 and i <= self._n, "storage index")
    self._memory[i - 1] = value
  end}
  local function new_storage(n)
    local memory = good and ffi.new(ctype .. "[?]", n) or {}
    if not good then for i = 0, n - 1 do memory[i] = 0 end end
    return setmetatable({_n = n, _memory = memory}, storage_meta)
  end

  local meta = {typename = name}
  local function over(storage, offset, sizes, strides)
    return setmetatable({_storage = storage, _offset = offset, _sizes = sizes, _strides = strides}, meta)
  end
  local function dense(sizes)
    local strides, count = {}, 1
    for i = #sizes, 1, -1 do
      strides[i] = count
      count = count * sizes[i]
    end
    return over(new_storage(#sizes == 0 and 0 or count), 1, sizes, strides)
  end
  local function each(tensor, visit)
    local function walk(depth, at, key)
      if depth > #tensor._sizes then return visit(at, key) end
      for i = 1, tensor._sizes[depth] do walk(depth + 1, at + (i - 1) * tensor._strides[depth]) end
    end
    if #tensor._sizes > 0 then walk(1, tensor._offset) end
  end

  function Tensor:dim() return #self._sizes end
  Tensor.nDimension = Tensor.dim
  function Tensor:nElement()
    local n = #self._sizes == 0 and 0 or 1
    for _, size in ipairs(self._sizes) do n = n * size end
    return n
  end
  function Tensor:size(i) return i and self._sizes[i] or {(unpack or table.unpack)(self._sizes)} end
  function Tensor:storage() return self:nElement() > 0 and self._storage or nil end
  function Tensor:storageOffset() return self._offset end
  function Tensor:isContiguous()
    local expected = 1
    for i = #self._sizes, 1, -1 do
      if self._strides[i] ~= expected then return false end
      expected = expected * self._sizes[i]
    end
    return true
  end
  function Tensor:data()
    assert(good, "data() needs LuaJIT")
    return self._storage._memory + (self._offset - 1)
  end
  function Tensor:type(wanted)
    if not wanted then return name end
    if wanted == name then return self end
    return classes[wanted](self:size()):copy(self)
  end
  function Tensor:clone() return classes[name](self:size()):copy(self) end
  function Tensor:contiguous() return self:isContiguous() and self or self:clone() end
  function Tensor:copy(source)
    assert(self:nElement() == source:nElement(), "inconsistent tensor size")
    local values, i = {}, 0
    torch.each(source, function(at) values[#values + 1] = source._storage[at] end)
    each(self, function(at)
      i = i + 1
      self._storage[at] = values[i]
    end)
    return self
  end
  function Tensor:fill(value)
    each(self, function(at) self._storage[at] = value end)
    return self
  end
  function Tensor:zero() return self:fill(0) end
  function Tensor:t() return over(self._storage, self._offset, {self._sizes[2], self._sizes[1]}, {self._strides[2], self._strides[1]}) end
  function Tensor:totable()
    if #self._sizes == 1 then
      local list = {}
      each(self, function(at) list[#list + 1] = self._storage[at] end)
      return list
    end
    local rows = {}
    for i = 1, self._sizes[1] or 0 do
      rows[i] = over(self._storage, self._offset + (i - 1) * self._strides[1], {self._sizes[2]}, {self._strides[2]}):totable()
    end
    return rows
  end
  function Tensor:narrow(d, first, size)
    local sizes = self:size()
    sizes[d] = size
    return over(self._storage, self._offset + (first - 1) * self._strides[d], sizes, self._strides)
  end
  torch.each = torch.each or function(tensor, visit) return getmetatable(tensor).each(tensor, visit) end
  meta.each = each
  meta.__index = Tensor
  local function new(...)
    local first = ...
    if type(first) ~= "table" then return dense{...} end
    if type(first[1]) == "table" then
      local made, at = dense{#first, #first[1]}, 1
      for _, row in ipairs(first) do
        for _, value in ipairs(row) do
          made._storage[at] = value
          at = at + 1
        end
      end
      return made
    end
    return dense(first)
  end
  --- Returns a tensor of these sizes, given as a list as size() returns it. Use fromtable for values.
  classes[name] = function(sizes) return dense(sizes) end
  torch[short .. "Tensor"] = new
  torch["_" .. short] = function(values)
    local made = dense{#values}
    for i, value in ipairs(values) do made._storage[i] = value end
    return made
  end
end

return torch
