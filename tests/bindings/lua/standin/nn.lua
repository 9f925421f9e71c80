--- A replacement of torch's nn for tests: a module whose parameters are in one flat tensor.
local torch = require "torch"
local nn = {}

function nn.Linear(inputs, outputs)
  local n = outputs * (inputs + 1)
  local parameters, gradients = torch.FloatTensor(n), torch.FloatTensor(n)
  return {getParameters = function() return parameters, gradients end}
end

return nn
