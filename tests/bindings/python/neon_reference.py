"""The formulas of neon's layers, costs and rules in NumPy, written as plainly as possible. The tests compare with them,
so this file uses neither neon nor Pleiad.
"""

import numpy


def places(shape, size, stride):
    """The top left corners of windows, by output position."""
    for i in range((shape[0] - size[0]) // stride + 1):
        for j in range((shape[1] - size[1]) // stride + 1):
            yield i, j, i * stride, j * stride


class Dense:
    """f(W x + b), without a bias if b is None."""

    def __init__(self, weight, bias, function):
        self.values = [weight, bias] if bias is not None else [weight]
        self.function = function

    def forward(self, x):
        self.shape, self.x = x.shape, x.reshape(len(x), -1)
        self.sums = self.x @ self.values[0].T + (self.values[1] if len(self.values) > 1 else 0)
        self.y = FUNCTIONS[self.function](self.sums)
        return self.y

    def backward(self, error, by_sums=False):
        if not by_sums:
            error = error * DERIVATIVES[self.function](self.y)
        self.gradients = [error.T @ self.x, error.sum(0)][: len(self.values)]
        return (error @ self.values[0]).reshape(self.shape)


FUNCTIONS = {
    "linear": lambda x: x,
    "logistic": lambda x: 1 / (1 + numpy.exp(-x)),
    "relu": lambda x: numpy.maximum(x, 0),
    "tanh": numpy.tanh,
    "softmax": lambda x: numpy.exp(x) / numpy.exp(x).sum(1, keepdims=True),
}
DERIVATIVES = {
    "linear": lambda y: 1.0,
    "logistic": lambda y: y * (1 - y),
    "relu": lambda y: (y > 0) * 1.0,
    "tanh": lambda y: 1 - y * y,
}


class Conv:
    def __init__(self, weight, bias, function, stride=1):
        self.values, self.function, self.stride = [weight, bias], function, stride

    def forward(self, x):
        self.x = x
        weight, (_, kh, kw, _) = self.values[0], self.values[0].shape
        self.at = list(places(x.shape[1:], (kh, kw), self.stride))
        out = numpy.zeros((len(x), self.at[-1][0] + 1, self.at[-1][1] + 1, len(weight)))
        for i, j, h, w in self.at:
            out[:, i, j] = numpy.einsum("nabc,oabc->no", x[:, h : h + kh, w : w + kw], weight)
        self.y = FUNCTIONS[self.function](out + self.values[1])
        return self.y

    def backward(self, error):
        error = error.reshape(self.y.shape) * DERIVATIVES[self.function](self.y)
        weight, (_, kh, kw, _) = self.values[0], self.values[0].shape
        self.gradients = [numpy.zeros_like(weight), error.sum((0, 1, 2))]
        back = numpy.zeros_like(self.x)
        for i, j, h, w in self.at:
            self.gradients[0] += numpy.einsum("nabc,no->oabc", self.x[:, h : h + kh, w : w + kw], error[:, i, j])
            back[:, h : h + kh, w : w + kw] += numpy.einsum("no,oabc->nabc", error[:, i, j], weight)
        return back


class Local:
    """A filter for each position. An update scales each filter to norm 1."""

    def __init__(self, weight):
        self.values = [weight]

    def forward(self, x):
        self.x = x
        weight = self.values[0]
        kh, kw = weight.shape[3:5]
        self.at = list(places(x.shape[1:], (kh, kw), 1))
        y = numpy.zeros((len(x), *weight.shape[:3]))
        for i, j, h, w in self.at:
            y[:, i, j] = numpy.einsum("nabc,oabc->no", x[:, h : h + kh, w : w + kw], weight[i, j])
        return y

    def backward(self, error):
        weight = self.values[0]
        kh, kw = weight.shape[3:5]
        self.gradients = [numpy.zeros_like(weight)]
        back = numpy.zeros_like(self.x)
        for i, j, h, w in self.at:
            self.gradients[0][i, j] = numpy.einsum("nabc,no->oabc", self.x[:, h : h + kh, w : w + kw], error[:, i, j])
            back[:, h : h + kh, w : w + kw] += numpy.einsum("no,oabc->nabc", error[:, i, j], weight[i, j])
        return back

    def decode(self, y):
        """The transposed filters."""
        weight = self.values[0]
        kh, kw = weight.shape[3:5]
        x = numpy.zeros_like(self.x)
        for i, j, h, w in self.at:
            x[:, h : h + kh, w : w + kw] += numpy.einsum("no,oabc->nabc", y[:, i, j], weight[i, j])
        return x

    def decode_gradients(self, y, error):
        """The gradients with respect to the weight and to y."""
        weight = self.values[0]
        kh, kw = weight.shape[3:5]
        gradient, back = numpy.zeros_like(weight), numpy.zeros_like(y)
        for i, j, h, w in self.at:
            part = error[:, h : h + kh, w : w + kw]
            gradient[i, j] = numpy.einsum("nabc,no->oabc", part, y[:, i, j])
            back[:, i, j] = numpy.einsum("nabc,oabc->no", part, weight[i, j])
        return gradient, back

    def normalize(self):
        length = numpy.sqrt((self.values[0] ** 2).sum((3, 4, 5), keepdims=True))
        self.values[0] /= numpy.where(length == 0, 1, length)


class Pool:
    def __init__(self, size, stride, kind):
        self.values, self.size, self.stride, self.kind = [], size, stride, kind

    def forward(self, x):
        self.x, (kh, kw) = x, self.size
        self.at = list(places(x.shape[1:], self.size, self.stride))
        self.y = numpy.zeros((len(x), self.at[-1][0] + 1, self.at[-1][1] + 1, x.shape[3]))
        for i, j, h, w in self.at:
            window = x[:, h : h + kh, w : w + kw]
            self.y[:, i, j] = window.max((1, 2)) if self.kind == "max" else numpy.sqrt((window**2).sum((1, 2)))
        return self.y

    def backward(self, error):
        error, (kh, kw) = error.reshape(self.y.shape), self.size
        back = numpy.zeros_like(self.x)
        for i, j, h, w in self.at:
            window = self.x[:, h : h + kh, w : w + kw]
            if self.kind == "max":
                flat = window.reshape(len(window), kh * kw, -1)
                first = numpy.arange(kh * kw)[None, :, None] == flat.argmax(1)[:, None]
                share = first.reshape(window.shape) * 1.0
            else:
                norm = self.y[:, i, j]
                share = window / numpy.where(norm == 0, 1, norm)[:, None, None]
            back[:, h : h + kh, w : w + kw] += share * error[:, i, j][:, None, None]
        return back


class Lcn:
    """v = x - G x; y = v / sqrt(G v^2), where 0 counts as 1. G is a matrix over all positions and maps."""

    def __init__(self, side):
        self.values, self.side = [], side

    def matrix(self, shape):
        height, width, channels = shape
        radius = self.side // 2
        sigma = numpy.sqrt(radius**2 + radius**2) / 3
        window = numpy.array(
            [
                [numpy.exp(-(a * a + b * b) / (2 * sigma**2)) for b in range(-radius, radius + 1)]
                for a in range(-radius, radius + 1)
            ]
        )
        window /= window.sum() * channels
        whole = numpy.zeros((height, width, channels, height, width, channels))
        for h in range(height):
            for w in range(width):
                for a in range(-radius, radius + 1):
                    for b in range(-radius, radius + 1):
                        if 0 <= h + a < height and 0 <= w + b < width:
                            whole[h, w, :, h + a, w + b, :] = window[a + radius, b + radius]
        count = height * width * channels
        return whole.reshape(count, count)

    def forward(self, x):
        self.shape = x.shape
        self.g = self.matrix(x.shape[1:])
        flat = x.reshape(len(x), -1)
        self.v = flat - flat @ self.g.T
        norm = numpy.sqrt(self.v**2 @ self.g.T)
        self.norm = numpy.where(norm == 0, 1, norm)
        return (self.v / self.norm).reshape(x.shape)

    def backward(self, error):
        error = error.reshape(len(error), -1)
        dv = error / self.norm - self.v * ((error * self.v / self.norm**3) @ self.g)
        return (dv - dv @ self.g).reshape(self.shape)


def cost_of(kind, y, t):
    """The cost of a batch and its derivative. For cross-entropy, the derivative is with respect to the sums before the
    activation.
    """
    if kind == "squares":
        return ((y - t) ** 2).sum() / 2 / len(y), (y - t) / len(y)
    if kind == "softmax":
        return -(t * numpy.log(y)).sum() / len(y), (y - t) / len(y)
    return -(t * numpy.log(y) + (1 - t) * numpy.log(1 - y)).sum() / len(y), (y - t) / len(y)


class Momentum:
    """v = m v - rate (g + decay w); w += v. Nesterov: w += (1 + m) v' - m v."""

    def __init__(self, nesterov=False):
        self.velocity, self.nesterov = {}, nesterov

    def __call__(self, value, gradient, rate, coefficient, decay=0.0):
        old = self.velocity.get(id(value), 0.0)
        new = coefficient * old - rate * (gradient + decay * value)
        value += (1 + coefficient) * new - coefficient * old if self.nesterov else new
        self.velocity[id(value)] = new


class AdaDelta:
    def __init__(self, rho, epsilon):
        self.rho, self.epsilon, self.sums = rho, epsilon, {}

    def __call__(self, value, gradient, *_):
        g, d = self.sums.get(id(value), (0.0, 0.0))
        g = self.rho * g + (1 - self.rho) * gradient**2
        change = -numpy.sqrt((d + self.epsilon) / (g + self.epsilon)) * gradient
        value += change
        self.sums[id(value)] = g, self.rho * d + (1 - self.rho) * change**2


def train(
    layers, x, t, cost, epochs, rule, rate=lambda epoch, layer: 0.1, coefficient=lambda epoch: 0.0, decay=0.0, only=None
):
    """Trains one batch per epoch and returns the costs before each update. only(epoch) selects the layers that are
    updated.
    """
    costs = []
    for epoch in range(epochs):
        y = x
        for layer in layers:
            y = layer.forward(y)
        value, error = cost_of(cost, y, t)
        costs.append(value)
        error = layers[-1].backward(error, cost != "squares")
        for layer in reversed(layers[:-1]):
            error = layer.backward(error)
        for layer in layers if only is None else only(epoch):
            for array, gradient in zip(layer.values, layer.gradients if layer.values else [], strict=True):
                rule(array, gradient, rate(epoch, layer), coefficient(epoch), decay)
            if isinstance(layer, Local):
                layer.normalize()
    return costs


def pretrain(below, local, pool, x, sparsity, rate, epochs):
    """Tied weights: updates the decoder, then the encoder, and scales the filters after each. The encoder's gradient is
    that of the same forward pass, with the weights from before the first update.
    """
    costs = []
    for _ in range(epochs):
        source = x
        for layer in below:
            source = layer.forward(source)
        hidden = local.forward(source)
        again = local.decode(hidden)
        price = pool.forward(hidden)
        count = len(x)
        costs.append(((again - source) ** 2).sum() / 2 / count + sparsity * price.sum() / count)
        error = (again - source) / count
        decoder, by_hidden = local.decode_gradients(hidden, error)
        by_hidden = by_hidden + pool.backward(numpy.full(price.shape, sparsity / count))
        local.values[0] -= rate * decoder
        local.normalize()
        local.backward(by_hidden)
        local.values[0] -= rate * local.gradients[0]
        local.normalize()
    return costs


def philox(key, counter):
    """Philox4x32-10 of Salmon and others, for one counter."""
    key, counter = list(key), list(counter)
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [
            (b >> 32) ^ counter[1] ^ key[0],
            b & 0xFFFFFFFF,
            (a >> 32) ^ counter[3] ^ key[1],
            a & 0xFFFFFFFF,
        ]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter


def uniform(seed, name, rows, columns, step):
    """The engine's uniform random values of a step, by sample and unit."""
    mask = (1 << 64) - 1
    digest = 0xCBF29CE484222325 ^ seed
    for letter in name.encode():
        digest = ((digest ^ letter) * 0x100000001B3) & mask
    digest = (digest ^ (digest >> 29)) ^ seed
    key = digest & 0xFFFFFFFF, digest >> 32
    out = numpy.zeros((rows, columns))
    for r in range(rows):
        for c in range(columns):
            out[r, c] = philox(key, (c // 4, 0, r, step))[c % 4] * 2.0**-32
    return out


def machine(weight, hidden_bias, visible_bias, batches, rate, coefficient, seed, name):
    """CD-1: hidden units are sampled once. The cost is half the squared distance of the reconstruction."""
    sigmoid, costs, rule = FUNCTIONS["logistic"], [], Momentum()
    for step, v in enumerate(batches):
        h = sigmoid(v @ weight.T + hidden_bias)
        sample = (uniform(seed, name, *h.shape, step) < h) * 1.0
        again = sigmoid(sample @ weight + visible_bias)
        h_again = sigmoid(again @ weight.T + hidden_bias)
        costs.append(((v - again) ** 2).sum() / 2 / len(v))
        count = len(v)
        rule(weight, (h_again.T @ again - h.T @ v) / count, rate, coefficient)
        rule(hidden_bias, (h_again - h).sum(0) / count, rate, coefficient)
        rule(visible_bias, (again - v).sum(0) / count, rate, coefficient)
    return costs
