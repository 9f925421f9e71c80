--- All uses of torch in this module. They are limited to its documented functions:
---
--- `torch.typename`, `torch.FloatTensor` and its sisters; of a tensor `:nElement()`, `:dim()`, `:size(i)`,
--- `:isContiguous()`, `:contiguous()`, `:type(name)`, `:data()` (LuaJIT only), `:storage()`, `:storageOffset()`.
local adapter = {}

--- Returns torch, or nil if it is not installed. Raises an error if it is installed but cannot be loaded.
function adapter.find()
  local good, found = pcall(require, "torch")
  if good then return type(found) == "table" and found or _G.torch end
  if tostring(found):find("module 'torch' not found", 1, true) then return nil end
  error(found, 0)
end

function adapter.is_tensor(torch, value)
  if type(value) ~= "userdata" and type(value) ~= "table" and type(value) ~= "cdata" then return false end
  local name = torch.typename(value)
  return name ~= nil and name:find("Tensor$") ~= nil
end

--- Describes a tensor as "torch.DoubleTensor of 2 x 3".
function adapter.describe(torch, tensor)
  local sizes = {}
  for i = 1, tensor:dim() do sizes[i] = ("%d"):format(tensor:size(i)) end
  return ("%s of %s"):format(torch.typename(tensor), #sizes > 0 and table.concat(sizes, " x ") or "no values")
end

local whole_types = {
  int32 = {"Byte", "Char", "Short", "Int"},
  int64 = {"Byte", "Char", "Short", "Int", "Long"},
}

--- Returns whether a table of `kind` accepts such a tensor. A table of integers refuses floating-point and wider types.
function adapter.fits(torch, tensor, kind)
  local allowed = whole_types[kind.name]
  if not allowed then return true end
  for _, name in ipairs(allowed) do
    if torch.typename(tensor) == "torch." .. name .. "Tensor" then return true end
  end
  return false
end

--- Returns whether a tensor has the element type of `kind`.
function adapter.is_exactly(torch, tensor, kind) return torch.typename(tensor) == "torch." .. kind.tensor end

--- Returns the tensor itself, or a dense copy of the type that a table of `kind` needs.
function adapter.dense(torch, tensor, kind)
  if not adapter.is_exactly(torch, tensor, kind) then tensor = tensor:type("torch." .. kind.tensor) end
  return tensor:isContiguous() and tensor or tensor:contiguous()
end

--- Creates a tensor with undefined contents.
function adapter.empty(torch, kind, shape)
  for _, size in ipairs(shape) do
    if size == 0 then return torch[kind.tensor]() end -- torch has no shapes without elements
  end
  return torch[kind.tensor]((unpack or table.unpack)(shape))
end

--- Iterates over the elements of a dense tensor through its storage, for Lua without FFI.
function adapter.read(tensor, buffer)
  local storage, first = tensor:storage(), tensor:storageOffset()
  for i = 0, tensor:nElement() - 1 do buffer[i] = storage[first + i] end
end

function adapter.write(tensor, buffer)
  local storage, first = tensor:storage(), tensor:storageOffset()
  for i = 0, tensor:nElement() - 1 do storage[first + i] = buffer[i] end
end

return adapter
