"""The nets of bench/nn.py, each in Pleiad, PyTorch and JAX, with the same arithmetic."""

import numpy as np


def stanh(module, x):
    return 1.7159047 * module.tanh(0.66666667 * x)


class Mlp:
    """Dense layers, plain SGD, softmax cross-entropy."""

    rule, rate, images, shape_of_target = "sgd", 0.01, False, ()

    def __init__(self, widths, activation, rate=0.01):
        self.widths, self.activation, self.rate = widths, activation, rate
        self.shape, self.classes = (widths[0],), widths[-1]
        self.products = sum(a * b for a, b in zip(widths, widths[1:]))
        self.first = widths[0] * widths[1]

    def data(self, batch, rng):
        x = rng.random((batch, *self.shape), dtype=np.float32)
        return x, rng.integers(0, self.classes, batch).astype(np.int32)

    def parameters(self, rng):
        """Returns {name: array} in Pleiad's layout."""
        out = {}
        for i, (a, b) in enumerate(zip(self.widths, self.widths[1:])):
            bound = (6 / (a + b)) ** 0.5
            out[f"fc{i}/weight"] = rng.uniform(-bound, bound, (b, a)).astype(np.float32)
            out[f"fc{i}/bias"] = np.zeros(b, np.float32)
        return out

    def net(self, nn):
        net = nn.Net()
        value = self.build(nn, net, net.input(self.shape, "x"))
        kind = "float32" if self.shape_of_target else "int32"
        loss = nn.EuclideanLoss() if self.shape_of_target else nn.SoftmaxLoss()
        loss(value, net.input(self.shape_of_target, "target", kind))
        return net

    def build(self, nn, net, value):
        last = len(self.widths) - 2
        for i, width in enumerate(self.widths[1:]):
            value = nn.Dense(width, "linear" if i == last else self.activation, name=f"fc{i}")(value)
        return value

    def optimizer(self, nn):
        return nn.SGD(self.rate)

    # The net in PyTorch.

    def model(self, torch):
        nn = torch.nn

        class Stanh(nn.Module):
            def forward(self, x):
                return stanh(torch, x)

        function = {"stanh": Stanh, "relu": nn.ReLU, "sigmoid": nn.Sigmoid}[self.activation]
        parts = []
        for a, b in zip(self.widths, self.widths[1:]):
            parts += [nn.Linear(a, b), function()]
        return nn.Sequential(*parts[:-1])

    def load(self, torch, model, parameters):
        linear = [m for m in model if isinstance(m, torch.nn.Linear)]
        with torch.no_grad():
            for i, layer in enumerate(linear):
                layer.weight.copy_(torch.from_numpy(parameters[f"fc{i}/weight"]))
                layer.bias.copy_(torch.from_numpy(parameters[f"fc{i}/bias"]))

    def torch_loss(self, torch, out, target):
        return torch.nn.functional.cross_entropy(out, target)

    def torch_optimizer(self, torch, parameters, **more):
        return torch.optim.SGD(parameters, lr=self.rate, **more)

    # The net in JAX.

    def jax_forward(self, jax, p, x):
        function = {"stanh": lambda v: stanh(jax.numpy, v), "relu": jax.nn.relu, "sigmoid": jax.nn.sigmoid}[
            self.activation
        ]
        last = len(self.widths) - 2
        for i in range(last + 1):
            x = x @ p[f"fc{i}/weight"].T + p[f"fc{i}/bias"]
            x = x if i == last else function(x)
        return x

    def jax_loss(self, jax, p, x, target):
        log = jax.nn.log_softmax(self.jax_forward(jax, p, x))
        return -jax.numpy.take_along_axis(log, target[:, None], 1).mean()

    def jax_state(self, jax, p):
        return ()

    def jax_update(self, jax, p, g, state):
        return jax.tree.map(lambda a, b: a - self.rate * b, p, g), state


class AutoEncoder(Mlp):
    rule, rate = "adagrad", 0.01

    def __init__(self):
        super().__init__([784, 1000, 500, 250, 30, 250, 500, 1000, 784], "sigmoid")
        self.shape_of_target = (784,)

    def data(self, batch, rng):
        x = rng.random((batch, 784), dtype=np.float32)
        return x, x.copy()

    def optimizer(self, nn):
        return nn.AdaGrad(self.rate)

    def torch_loss(self, torch, out, target):
        return 0.5 * ((out - target) ** 2).sum() / out.shape[0]

    def torch_optimizer(self, torch, parameters, **more):
        return torch.optim.Adagrad(parameters, lr=self.rate, **more)

    def jax_loss(self, jax, p, x, target):
        return 0.5 * ((self.jax_forward(jax, p, x) - target) ** 2).sum() / x.shape[0]

    def jax_state(self, jax, p):
        return jax.tree.map(jax.numpy.zeros_like, p)

    def jax_update(self, jax, p, g, state):
        state = jax.tree.map(lambda s, d: s + d * d, state, g)
        new = jax.tree.map(lambda a, d, s: a - self.rate * d / (jax.numpy.sqrt(s) + 1e-10), p, g, state)
        return new, state


class Cnn(Mlp):
    """SINGA's CIFAR-10 net."""

    rule, rate, images = "sgd", 0.001, True
    convs = (("conv1", 3, 32), ("conv2", 32, 32), ("conv3", 32, 64))

    def __init__(self):
        self.shape, self.classes = (32, 32, 3), 10
        self.first = 32 * 32 * 32 * 75
        self.products = self.first + 15 * 15 * 32 * 800 + 7 * 7 * 64 * 800 + 5760

    def parameters(self, rng):
        out = {}
        for name, a, b in self.convs:
            out[f"{name}/weight"] = rng.normal(0, 0.05, (b, 5, 5, a)).astype(np.float32)
            out[f"{name}/bias"] = np.zeros(b, np.float32)
        out["fc/weight"] = rng.normal(0, 0.05, (10, 576)).astype(np.float32)
        out["fc/bias"] = np.zeros(10, np.float32)
        return out

    def build(self, nn, net, v):
        v = nn.Pooling(3, 2)(nn.Convolution(32, 5, pad=2, name="conv1")(v))
        v = nn.LRN(3, 5e-5, 0.75)(nn.Activation("relu")(v))
        v = nn.Pooling(3, 2, "average")(nn.Convolution(32, 5, pad=2, activation="relu", name="conv2")(v))
        v = nn.LRN(3, 5e-5, 0.75)(v)
        v = nn.Pooling(3, 2, "average")(nn.Convolution(64, 5, pad=2, activation="relu", name="conv3")(v))
        return nn.Dense(10, name="fc")(v)

    def model(self, torch):
        nn = torch.nn
        conv = [nn.Conv2d(a, b, 5, padding=2) for _, a, b in self.convs]
        lrn = lambda: nn.LocalResponseNorm(3, 5e-5, 0.75)  # noqa: E731
        return nn.Sequential(
            conv[0], nn.MaxPool2d(3, 2), nn.ReLU(), lrn(), conv[1], nn.ReLU(), nn.AvgPool2d(3, 2), lrn(),
            conv[2], nn.ReLU(), nn.AvgPool2d(3, 2), nn.Flatten(), nn.Linear(576, 10),
        )  # fmt: skip

    def load(self, torch, model, parameters):
        layers = [m for m in model if hasattr(m, "weight")]
        with torch.no_grad():
            for layer, name in zip(layers, ("conv1", "conv2", "conv3", "fc")):
                weight = parameters[f"{name}/weight"]
                if name == "fc":  # rows of height, width, channels become channels, height, width
                    weight = weight.reshape(10, 3, 3, 64).transpose(0, 3, 1, 2).reshape(10, 576)
                else:
                    weight = weight.transpose(0, 3, 1, 2)
                layer.weight.copy_(torch.from_numpy(np.ascontiguousarray(weight)))
                layer.bias.copy_(torch.from_numpy(parameters[f"{name}/bias"]))

    def jax_forward(self, jax, p, x):
        lax, jnp = jax.lax, jax.numpy

        def conv(x, name):
            kinds = ("NHWC", "OHWI", "NHWC")
            return lax.conv_general_dilated(x, p[f"{name}/weight"], (1, 1), [(2, 2), (2, 2)], dimension_numbers=kinds) + p[f"{name}/bias"]  # fmt: skip

        def pool(x, start, op):
            return lax.reduce_window(x, start, op, (1, 3, 3, 1), (1, 2, 2, 1), "VALID")

        def lrn(x):
            square = jnp.pad(x * x, ((0, 0), (0, 0), (0, 0), (1, 1)))
            total = square[..., :-2] + square[..., 1:-1] + square[..., 2:]
            return x * (1 + 5e-5 / 3 * total) ** -0.75

        x = lrn(jax.nn.relu(pool(conv(x, "conv1"), -jnp.inf, lax.max)))
        x = lrn(pool(jax.nn.relu(conv(x, "conv2")), 0.0, lax.add) / 9)
        x = pool(jax.nn.relu(conv(x, "conv3")), 0.0, lax.add) / 9
        return x.reshape(x.shape[0], -1) @ p["fc/weight"].T + p["fc/bias"]


NETS = {
    "mlp": (lambda: Mlp([784, 2500, 2000, 1500, 1000, 500, 10], "stanh"), [64, 1000]),
    "small": (lambda: Mlp([784, 128, 10], "relu", 0.05), [32]),
    "autoencoder": (AutoEncoder, [100]),
    "cnn": (Cnn, [100]),
}
