--- All that this module knows about torch: nothing but its documented calls.
---
--- `torch.typename`, `torch.FloatTensor` and its sisters; of a tensor `:nElement()`, `:dim()`, `:size(i)`,
--- `:isContiguous()`, `:contiguous()`, `:type(name)`, `:data()` (LuaJIT only), `:storage()`, `:storageOffset()`.
local adapter = {}

--- torch, or nil where there is none. One that is there and cannot be loaded is an error.
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

--- "torch.DoubleTensor of 2 x 3"
function adapter.describe(torch, tensor)
  local sizes = {}
  for i = 1, tensor:dim() do sizes[i] = ("%d"):format(tensor:size(i)) end
  return ("%s of %s"):format(torch.typename(tensor), #sizes > 0 and table.concat(sizes, " x ") or "no values")
end

local whole_types = {
  int32 = {"Byte", "Char", "Short", "Int"},
  int64 = {"Byte", "Char", "Short", "Int", "Long"},
}

--- Whether a table of `kind` can take such a tensor: one of integers takes no fractions and nothing wider than itself.
function adapter.fits(torch, tensor, kind)
  local allowed = whole_types[kind.name]
  if not allowed then return true end
  for _, name in ipairs(allowed) do
    if torch.typename(tensor) == "torch." .. name .. "Tensor" then return true end
  end
  return false
end

--- Whether a tensor has the element type of `kind`.
function adapter.is_exactly(torch, tensor, kind) return torch.typename(tensor) == "torch." .. kind.tensor end

--- The tensor itself, or a dense one of the type that a table of `kind` needs.
function adapter.dense(torch, tensor, kind)
  if not adapter.is_exactly(torch, tensor, kind) then tensor = tensor:type("torch." .. kind.tensor) end
  return tensor:isContiguous() and tensor or tensor:contiguous()
end

--- A tensor with undefined contents.
function adapter.empty(torch, kind, shape)
  for _, size in ipairs(shape) do
    if size == 0 then return torch[kind.tensor]() end -- torch knows no shape without elements
  end
  return torch[kind.tensor]((unpack or table.unpack)(shape))
end

--- Elements of a dense tensor, one after the other, through its storage: for a Lua without FFI.
function adapter.read(tensor, buffer)
  local storage, first = tensor:storage(), tensor:storageOffset()
  for i = 0, tensor:nElement() - 1 do buffer[i] = storage[first + i] end
end

function adapter.write(tensor, buffer)
  local storage, first = tensor:storage(), tensor:storageOffset()
  for i = 0, tensor:nElement() - 1 do storage[first + i] = buffer[i] end
end

return adapter
