--- Stands in for torch's nn: a module whose parameters lie in one flat tensor.
local torch = require "torch"
local nn = {}

function nn.Linear(inputs, outputs)
  local n = outputs * (inputs + 1)
  local parameters, gradients = torch.FloatTensor(n), torch.FloatTensor(n)
  return {getParameters = function() return parameters, gradients end}
end

return nn
