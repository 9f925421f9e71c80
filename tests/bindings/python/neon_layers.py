"""neon's layers compared with NumPy: outputs, gradients by finite differences, and the weights after a step of the
engine.
"""

import numpy

from neon import layers, transforms
from pleiad import nn

SHAPE = (7, 6, 3)
WEIGHTS = {"type": "node_normalized", "scale": 1.0}
TESTED = [
    layers.ConvLayer(name="conv", nofm=4, fshape=[3, 2], stride=2, weight_init=WEIGHTS, activation=transforms.Tanh()),
    layers.LocalFilteringLayer(name="local", nofm=2, fshape=[3, 3], stride=2, weight_init=WEIGHTS),
    layers.LCNLayer(name="lcn", fshape=[3, 3]),
    layers.LCNLayer(name="wide", fshape=[5, 5]),
    layers.LocalContrastNormLayer(name="box", fshape=[3, 3], alpha=0.7, beta=0.6),
    layers.CrossMapResponseNormLayer(name="across", ksize=2, alpha=0.5),
    layers.PoolingLayer(name="max", op="max", fshape=[2, 2], stride=2),
    layers.PoolingLayer(name="average", op="avg", fshape=[3, 3], stride=1),
    layers.L2PoolingLayer(name="l2", fshape=[3, 3], stride=2),
    layers.FCLayer(name="dense", nout=5, weight_init=WEIGHTS, activation=transforms.Logistic()),
    layers.ActivationLayer(name="relu", activation=transforms.RectLin()),
]

random = numpy.random.default_rng(4)
x = random.normal(size=(2, *SHAPE))
for layer in TESTED:
    layer.initialize(SHAPE, seed=3, dtype=numpy.dtype("float64"))
    net = nn.Net(dtype="float64", seed=3)
    value = net.input(SHAPE, name="x")
    for part in layer.engine_layers():
        value = net.add(part, value)
    net.forward({"x": x}, phase="test")
    layer.fprop(x)
    assert numpy.allclose(layer.output, net.output(layer.name), rtol=1e-9, atol=1e-12), layer.name
    error = random.normal(size=layer.output.shape)
    layer.bprop(error.copy(), x, 0, (0.0, 0.0))  # with a learning rate of 0 the weights do not change
    for _ in range(12):
        place = tuple(random.integers(0, n) for n in x.shape)
        ends = []
        for step in (1e-6, -1e-6):
            moved = x.copy()
            moved[place] += step
            layer.fprop(moved)
            ends.append((layer.output * error).sum())
        expected = (ends[0] - ends[1]) / 2e-6
        assert abs(layer.berror[place] - expected) < 1e-6 * max(1, abs(expected)), (layer.name, place)

learnt = 0
for layer in TESTED:
    if not isinstance(layer, layers.WeightLayer):
        continue
    learnt += 1
    layer.initialize(SHAPE, seed=3, dtype=numpy.dtype("float64"))
    net = nn.Net(dtype="float64", seed=3)
    value = net.input(SHAPE, name="x")
    for part in layer.engine_layers():
        value = net.add(part, value)
    net.add(nn.EuclideanLoss(), value, net.input(value.shape, "target"), name="loss")
    target = random.normal(size=(2, *value.shape))
    before = layer.weights.copy()
    nn.Trainer(net, nn.SGD(0.3), batch=2).fit(nn.Dataset(net, {"x": x, "target": target}), epochs=1, progress=False)
    layer.fprop(x)
    layer.bprop(transforms.SumSquaredDiffs().apply_derivative(layer.output, target), x, 0, (0.3, 0.0))
    names = {"weight": layer.weights, "bias": layer.bias} if layer.bias.size else {"weight": layer.weights}
    for name, mine in names.items():
        engines = net.parameters[f"{layer.name}/{name}"]
        assert numpy.allclose(mine, engines, rtol=1e-9, atol=1e-12), (layer.name, name)
    assert abs(layer.weights - before).max() > 1e-2, layer.name
assert learnt == 3
