"""More nets for bench/nn.py: a restricted Boltzmann machine, a GRU and local filters, each in Pleiad, PyTorch and JAX."""

import numpy as np
from nn_nets import Mlp


class Rbm(Mlp):
    """784-1000, CD-1, on binary data, with momentum and decay. Losses are compared without sampling, because the random
    numbers differ.
    """

    rule, rate, momentum, decay = "momentum", 0.1, 0.8, 0.0002
    shape, shape_of_target = (784,), ()

    def __init__(self, sample="hidden"):
        self.sample = sample
        self.products = 784 * 1000 * 3
        # The gradient needs two products, but the backward pass of a dense layer has two per forward product.
        self.first = self.products * 2 - 784 * 1000 * 2

    def twin(self):
        return Rbm("none")

    def data(self, batch, rng):
        return rng.random((batch, 784), dtype=np.float32).round(), None

    def parameters(self, rng):
        return {
            "rbm/weight": rng.normal(0, 0.1, (1000, 784)).astype(np.float32),
            "rbm/hidden_bias": np.zeros(1000, np.float32),
            "rbm/visible_bias": np.zeros(784, np.float32),
        }

    def net(self, nn):
        net = nn.Net()
        nn.RBM(1000, sample=self.sample, name="rbm")(net.input((784,), "x"))
        return net

    def optimizer(self, nn):
        return nn.SGD(self.rate, self.momentum, weight_decay=self.decay)

    def torch_steps(self, torch, parameters, x, target, *, compiled=False, fused=False):
        weight, c, b = (torch.from_numpy(p.copy()) for p in parameters.values())
        x = torch.from_numpy(x)
        for p in (weight, c, b):
            p.grad = torch.empty_like(p)
        more = {"fused": True} if fused else {}
        optimizer = torch.optim.SGD([weight, c, b], self.rate, self.momentum, weight_decay=self.decay, **more)
        sampling, batch = self.sample != "none", len(x)

        def gradients(v, weight, c, b):
            h = torch.sigmoid(torch.addmm(c, v, weight.t()))
            v1 = torch.sigmoid(torch.addmm(b, torch.bernoulli(h) if sampling else h, weight))
            h1 = torch.sigmoid(torch.addmm(c, v1, weight.t()))
            by_weight = torch.addmm(h1.t() @ v1, h.t(), v, beta=1 / batch, alpha=-1 / batch)
            return by_weight, (h1 - h).mean(0), (v1 - v).mean(0), 0.5 * ((v1 - v) ** 2).sum() / batch

        made = torch.compile(gradients) if compiled else None
        h, s, h1 = (torch.empty(batch, len(c)) for _ in range(3))
        v1 = torch.empty_like(x)

        def in_place():  # written for speed: allocates only the small sums
            torch.addmm(c, x, weight.t(), out=h).sigmoid_()
            torch.addmm(b, torch.bernoulli(h, out=s) if sampling else h, weight, out=v1).sigmoid_()
            torch.addmm(c, v1, weight.t(), out=h1).sigmoid_()
            torch.mm(h1.t(), v1, out=weight.grad).addmm_(h.t(), x, beta=1 / batch, alpha=-1 / batch)
            torch.mean(h1.sub_(h), 0, out=c.grad)
            torch.mean(v1.sub_(x), 0, out=b.grad)
            return 0.5 * v1.square_().sum() / batch

        @torch.no_grad()
        def steps(count):
            for _ in range(count):
                if compiled:
                    weight.grad, c.grad, b.grad, loss = made(x, weight, c, b)
                else:
                    loss = in_place()
                optimizer.step()
            return loss.item()

        return steps

    def jax_steps(self, jax, parameters, x, target):
        jnp, batch = jax.numpy, len(x)
        x = jnp.array(x)

        def step(p, state, key):
            weight, c, b = p
            key, draw = jax.random.split(key)
            h = jax.nn.sigmoid(x @ weight.T + c)
            s = h if self.sample == "none" else (jax.random.uniform(draw, h.shape) < h).astype(h.dtype)
            v1 = jax.nn.sigmoid(s @ weight + b)
            h1 = jax.nn.sigmoid(v1 @ weight.T + c)
            g = ((h1.T @ v1 - h.T @ x) / batch, (h1 - h).mean(0), (v1 - x).mean(0))
            state = jax.tree.map(lambda m, d, w: self.momentum * m + d + self.decay * w, state, g, p)
            p = jax.tree.map(lambda w, m: w - self.rate * m, p, state)
            return 0.5 * ((v1 - x) ** 2).sum() / batch, p, state, key

        step = jax.jit(step, donate_argnums=(0, 1))
        p = tuple(jnp.array(a) for a in parameters.values())
        place = [p, jax.tree.map(jnp.zeros_like, p), jax.random.key(1)]

        def steps(count):
            for _ in range(count):
                loss, *place[:] = step(*place)
            return float(loss)

        return steps


class RbmGrey(Rbm):
    """The same net on grey levels. Only the product from hidden to visible units has a binary factor."""

    def twin(self):
        return RbmGrey("none")

    def data(self, batch, rng):
        return rng.random((batch, 784), dtype=np.float32), None


class Gru(Mlp):
    """100 features, 512 units, 50 steps, as in the char-RNN. Plain SGD on the squared distance from a target."""

    rate, steps, features, units = 0.01, 50, 100, 512

    def __init__(self):
        self.shape, self.shape_of_target = (self.steps, self.features), (self.steps, self.units)
        self.first = self.steps * 3 * self.units * self.features
        self.products = self.first + self.steps * 3 * self.units * self.units

    def data(self, batch, rng):
        x = rng.random((batch, *self.shape), dtype=np.float32)
        return x, rng.random((batch, *self.shape_of_target), dtype=np.float32)

    def parameters(self, rng):
        bound, rows = self.units**-0.5, 3 * self.units
        draw = lambda *shape: rng.uniform(-bound, bound, shape).astype(np.float32)  # noqa: E731
        return {
            "gru/weight": draw(rows, self.features),
            "gru/recurrent": draw(rows, self.units),
            "gru/bias": draw(rows),
        }

    def build(self, nn, net, value):
        return nn.GRU(self.units, name="gru")(value)

    def model(self, torch):
        class Model(torch.nn.Module):
            def __init__(self, features, units):
                super().__init__()
                self.gru = torch.nn.GRU(features, units, batch_first=True)
                torch.nn.init.zeros_(self.gru.bias_hh_l0)
                self.gru.bias_hh_l0.requires_grad_(False)  # one bias, as in Pleiad

            def forward(self, x):
                return self.gru(x)[0]

        return Model(self.features, self.units)

    def load(self, torch, model, parameters):
        with torch.no_grad():
            for to, name in ((model.gru.weight_ih_l0, "weight"), (model.gru.weight_hh_l0, "recurrent"), (model.gru.bias_ih_l0, "bias")):  # fmt: skip
                to.copy_(torch.from_numpy(parameters[f"gru/{name}"]))

    def torch_loss(self, torch, out, target):
        return 0.5 * ((out - target) ** 2).sum() / out.shape[0]

    def torch_optimizer(self, torch, parameters, **more):
        return torch.optim.SGD([p for p in parameters if p.requires_grad], lr=self.rate, **more)

    def jax_loss(self, jax, p, x, target):
        jnp = jax.numpy
        gates = x @ p["gru/weight"].T + p["gru/bias"]

        def step(h, a):
            u = h @ p["gru/recurrent"].T
            (a_r, a_z, a_n), (u_r, u_z, u_n) = jnp.split(a, 3, 1), jnp.split(u, 3, 1)
            r, z = jax.nn.sigmoid(a_r + u_r), jax.nn.sigmoid(a_z + u_z)
            h = (1 - z) * jnp.tanh(a_n + r * u_n) + z * h
            return h, h

        start = jnp.zeros((x.shape[0], self.units), x.dtype)
        out = jax.lax.scan(step, start, gates.swapaxes(0, 1))[1].swapaxes(0, 1)
        return 0.5 * ((out - target) ** 2).sum() / x.shape[0]


class Local(Mlp):
    """Two layers of local filters, 5x5 over 32x32x3 to 8 maps, and 5x5 over those to 8 maps. Plain SGD."""

    rate, sides, maps, kernel = 0.0005, (32, 28, 24), (3, 8, 8), 5

    def __init__(self):
        self.shape, self.shape_of_target = (32, 32, 3), (24, 24, 8)
        each = [b * b * m * self.kernel**2 * c for b, m, c in zip(self.sides[1:], self.maps[1:], self.maps)]
        self.first, self.products = each[0], sum(each)

    def data(self, batch, rng):
        x = rng.random((batch, *self.shape), dtype=np.float32)
        return x, rng.random((batch, *self.shape_of_target), dtype=np.float32)

    def parameters(self, rng):
        k = self.kernel
        out = {}
        for i, (b, m, c) in enumerate(zip(self.sides[1:], self.maps[1:], self.maps)):
            out[f"local{i}/weight"] = rng.normal(0, (k * k * c) ** -0.5, (b, b, m, k, k, c)).astype(np.float32)
        return out

    def build(self, nn, net, value):
        value = nn.LocalConvolution(8, 5, activation="tanh", name="local0")(value)
        return nn.LocalConvolution(8, 5, name="local1")(value)

    def torch_loss(self, torch, out, target):
        return 0.5 * ((out - target) ** 2).sum() / out.shape[0]

    # The variants: windows gathered by unfold or as a view, multiplied by bmm or einsum.
    torch_ways = {"eager": "unfold_bmm", "view_bmm": "view_bmm", "view_einsum": "view_einsum"}

    def torch_steps(self, torch, parameters, x, target, *, way="unfold_bmm", compiled=False, fused=False):
        k, functional = self.kernel, torch.nn.functional
        weights = []
        for w in parameters.values():  # (positions, channels * k * k, maps), with channels first as in PyTorch's images
            h, _, m, _, _, c = w.shape
            weights.append(torch.from_numpy(w.transpose(0, 1, 5, 3, 4, 2).reshape(h * h, c * k * k, m).copy()).requires_grad_())  # fmt: skip
        x = torch.from_numpy(np.ascontiguousarray(np.moveaxis(x, -1, 1)))
        target = torch.from_numpy(np.ascontiguousarray(np.moveaxis(target, -1, 1)))

        def layer(x, w):
            n, side = len(x), x.shape[2] - k + 1
            if way == "unfold_bmm":
                y = torch.bmm(functional.unfold(x, k).permute(2, 0, 1), w)
                return y.permute(1, 2, 0).reshape(n, -1, side, side)
            windows = x.unfold(2, k, 1).unfold(3, k, 1)  # n, c, h, w, k, k
            if way == "view_bmm":
                y = torch.bmm(windows.permute(2, 3, 0, 1, 4, 5).reshape(side * side, n, -1), w)
                return y.permute(1, 2, 0).reshape(n, -1, side, side)
            split = w.view(side, side, x.shape[1], k, k, -1)
            return torch.einsum("nchwij,hwcijm->nmhw", windows, split)

        def forward(x):
            return layer(torch.tanh(layer(x, weights[0])), weights[1])

        forward = torch.compile(forward) if compiled else forward
        optimizer = torch.optim.SGD(weights, lr=self.rate, **({"fused": True} if fused else {}))

        def steps(count):
            for _ in range(count):
                optimizer.zero_grad(set_to_none=True)
                loss = self.torch_loss(torch, forward(x), target)
                loss.backward()
                optimizer.step()
            return loss.item()

        return steps

    def jax_loss(self, jax, p, x, target):
        lax, jnp, k = jax.lax, jax.numpy, self.kernel
        for i in (0, 1):
            w = p[f"local{i}/weight"]
            side, m, c = w.shape[0], w.shape[2], w.shape[5]
            filters = w.transpose(0, 1, 5, 3, 4, 2).reshape(side, side, c * k * k, m)
            x = lax.conv_general_dilated_local(
                x, filters, (1, 1), "VALID", (k, k), dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            x = jnp.tanh(x) if i == 0 else x
        return 0.5 * ((x - target) ** 2).sum() / x.shape[0]


MORE = {"rbm": (Rbm, [100]), "rbm_grey": (RbmGrey, [100]), "gru": (Gru, [50]), "local": (Local, [100])}
