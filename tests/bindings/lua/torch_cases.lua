--- The binding's torch path, tested with the replacement of torch.
local harness = require "harness"
local torch, nn = require "torch", require "nn"
local multiverso = require "multiverso"
local case, equal, raises = harness.case, harness.equal, harness.raises

local function session(body)
  multiverso.init{log_level = "off", timeout = 600}
  body(multiverso.num_workers(), multiverso.worker_id())
  multiverso.shutdown()
end

case("torch_is_found_and_gets_are_float_tensors", function()
  equal(multiverso.about.torch, true)
  session(function()
    equal(torch.typename(multiverso.ArrayTableHandler:new(3):get()), "torch.FloatTensor")
    local got = multiverso.MatrixTableHandler:new(3, 2):get{1}
    equal({got:dim(), got:size(1), got:size(2)}, {2, 1, 2})
  end)
end)

case("parameters_of_nn_go_in_and_out", function()
  session(function(workers)
    local parameters, gradients = nn.Linear(3, 2):getParameters()
    local array = multiverso.ArrayTableHandler:new(parameters:nElement(), parameters:fill(5))
    array:add(gradients:fill(1))
    multiverso.barrier()
    parameters:copy(array:get())
    equal(parameters, harness.times(8, 5 + workers))
    equal(array:get(parameters:fill(0)), harness.times(8, 5 + workers))
    raises(function() array:get(torch.DoubleTensor(8)) end, "float32", "torch.DoubleTensor of 8")
  end)
end)

case("tensors_of_any_type_strided_and_narrowed", function()
  session(function(workers)
    local array = multiverso.ArrayTableHandler:new(3)
    for _, kind in ipairs{"_Float", "_Double", "_Int", "_Long", "_Byte"} do array:add(torch[kind]{1, 2, 3}) end
    array:add(torch._Float{9, 1, 2, 3}:narrow(1, 2, 3))
    multiverso.barrier()
    equal(array:get(), {6 * workers, 12 * workers, 18 * workers})
    multiverso.barrier()
    local matrix = multiverso.MatrixTableHandler:new(4, 2)
    matrix:add(torch.DoubleTensor{{1, 2, 3}, {4, 5, 6}}:t(), torch._Long{0, 3, 1})
    multiverso.barrier()
    local w = workers
    equal(matrix:get(), {{w, 4 * w}, {3 * w, 6 * w}, {0, 0}, {2 * w, 5 * w}})
  end)
end)

case("wrong_tensors_name_their_type_and_size", function()
  session(function()
    local array = multiverso.ArrayTableHandler:new(3)
    raises(function() array:add(torch.DoubleTensor(2, 2)) end, "3 values", "torch.DoubleTensor of 2 x 2")
    local whole = multiverso.ArrayTableHandler:new(2, torch._Byte{1, 2}, {dtype = "int32"})
    raises(function() whole:add(torch._Double{1, 1.5}) end, "int32", "torch.DoubleTensor of 2")
    equal(torch.typename(whole:get()), "torch.IntTensor")
    equal(whole:get(), {1, 2})
    local matrix = multiverso.MatrixTableHandler:new(4, 2)
    raises(function() matrix:get(torch._Double{4}) end, "row id 4", "0..3")
    raises(function() matrix:add(torch.FloatTensor(2, 4)) end, "4 x 2", "torch.FloatTensor of 2 x 4")
  end)
end)

harness.run()
