"""Whole nets compared with PyTorch: the same weights and batches give the same losses for 200 steps, to 1e-4."""

import cases
import numpy as np
import torch
import torch.nn as tn

from pleiad import nn

STEPS = 200
torch.set_num_threads(1)
nn.set_threads(1)


class Stanh(tn.Module):
    def forward(self, x):
        return 1.7159047 * torch.tanh(0.66666667 * x)


def give_weights(net, model, layers):
    """Copies PyTorch's parameters to the net: {layer of the net: (module, axes of its weight)}."""
    for name, (module, axes) in layers.items():
        for kind in ("weight", "bias", "scale", "shift"):
            if f"{name}/{kind}" in net.parameters:
                theirs = getattr(module, {"scale": "weight", "shift": "bias"}.get(kind, kind)).detach().numpy()
                net.parameters[f"{name}/{kind}"][:] = axes(theirs) if kind == "weight" and axes else theirs


def compare(net, model, layers, optimizer, rule, batches, loss_of, images=False, batch=32):
    give_weights(net, model, layers)
    trainer = nn.Trainer(net, rule, batch=batch)
    mine, theirs = [], []
    for x, y in batches:
        theirs_x = torch.from_numpy(np.ascontiguousarray(np.moveaxis(x, -1, 1))) if images else torch.from_numpy(x)
        optimizer.zero_grad()
        loss = loss_of(model(theirs_x), torch.from_numpy(y))
        loss.backward()
        optimizer.step()
        theirs.append(loss.item())
        mine.append(trainer.step(x, y)["loss"])
    assert len(mine) == STEPS
    np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4)
    assert np.mean(theirs[-20:]) < 0.99 * np.mean(theirs[:20]), "nothing was learnt: the comparison means little"


def labelled(rng, batch, shape, classes, signal=1.0):
    """Batches whose class determines the mean of a stripe of x."""
    for _ in range(STEPS):
        y = rng.integers(0, classes, batch)
        x = rng.normal(size=(batch, *shape)).astype(np.float32)
        flat = x.reshape(batch, classes, -1)
        flat[np.arange(batch), y] += signal
        yield x, y


def mlp_of(widths, activation):
    net = nn.Net()
    value = net.input((widths[0],), "x")
    for i, width in enumerate(widths[1:]):
        last = i == len(widths) - 2
        value = nn.Dense(width, "linear" if last else activation, name=f"fc{i}")(value)
    return net, value


def sequence(widths, function):
    parts = []
    for a, b in zip(widths, widths[1:]):
        parts += [tn.Linear(a, b), function()]
    return tn.Sequential(*parts[:-1])


def test_mlp_of_stanh_by_sgd():
    torch.manual_seed(1)
    widths = [780, 500, 400, 300, 10]
    net, scores = mlp_of(widths, "stanh")
    nn.SoftmaxLoss()(scores, net.input((), "label", "int32"))
    model = sequence(widths, Stanh)
    layers = {f"fc{i}": (model[2 * i], None) for i in range(4)}
    batches = labelled(np.random.default_rng(1), 32, (780,), 10)
    compare(net, model, layers, torch.optim.SGD(model.parameters(), lr=0.01), nn.SGD(0.01), batches,
            lambda out, y: tn.functional.cross_entropy(out, y))  # fmt: skip


def test_singas_cnn_of_cifar10():
    """Convolutions, max and average pooling, LRN, momentum and weight decay."""
    torch.manual_seed(2)
    net = nn.Net()
    v = net.input((32, 32, 3), "x")
    v = nn.Convolution(32, 5, pad=2, name="conv1")(v)
    v = nn.Activation("relu")(nn.Pooling(3, 2)(v))
    v = nn.LRN(3, 5e-5, 0.75)(v)
    v = nn.Convolution(32, 5, pad=2, activation="relu", name="conv2")(v)
    v = nn.LRN(3, 5e-5, 0.75)(nn.Pooling(3, 2, "average")(v))
    v = nn.Convolution(64, 5, pad=2, activation="relu", name="conv3")(v)
    v = nn.Dense(10, name="fc")(nn.Pooling(3, 2, "average")(v))
    nn.SoftmaxLoss()(v, net.input((), "label", "int32"))
    conv = [tn.Conv2d(3, 32, 5, padding=2), tn.Conv2d(32, 32, 5, padding=2), tn.Conv2d(32, 64, 5, padding=2)]
    fc = tn.Linear(576, 10)
    model = tn.Sequential(
        conv[0], tn.MaxPool2d(3, 2), tn.ReLU(), tn.LocalResponseNorm(3, 5e-5, 0.75),
        conv[1], tn.ReLU(), tn.AvgPool2d(3, 2), tn.LocalResponseNorm(3, 5e-5, 0.75),
        conv[2], tn.ReLU(), tn.AvgPool2d(3, 2), tn.Flatten(), fc,
    )  # fmt: skip
    image = lambda w: w.transpose(0, 2, 3, 1)  # noqa: E731
    layers = {f"conv{i + 1}": (conv[i], image) for i in range(3)}
    layers["fc"] = (fc, lambda w: w.reshape(10, 64, 3, 3).transpose(0, 2, 3, 1).reshape(10, 576))
    batches = labelled(np.random.default_rng(2), 8, (32, 32, 3), 8, 0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, weight_decay=0.004)
    compare(net, model, layers, optimizer, nn.SGD(0.001, momentum=0.9, weight_decay=0.004), batches,
            lambda out, y: tn.functional.cross_entropy(out, y), images=True, batch=8)  # fmt: skip


def test_auto_encoder_by_adagrad():
    torch.manual_seed(3)
    widths = [196, 120, 60, 20, 60, 120, 196]
    net, out = mlp_of(widths, "sigmoid")
    nn.EuclideanLoss()(out, net.input((196,), "target"))
    model = sequence(widths, tn.Sigmoid)
    for p in model.parameters():
        if p.dim() > 1:
            tn.init.xavier_uniform_(p)
    layers = {f"fc{i}": (model[2 * i], None) for i in range(6)}
    rng = np.random.default_rng(3)
    basis = rng.random((5, 196)).astype(np.float32)
    data = [(rng.random((32, 5)).astype(np.float32) @ basis / 3,) * 2 for _ in range(STEPS)]
    compare(net, model, layers, torch.optim.Adagrad(model.parameters(), lr=0.01), nn.AdaGrad(0.01), data,
            lambda out, t: 0.5 * ((out - t) ** 2).sum() / len(out))  # fmt: skip


def test_batch_norm_by_adam():
    torch.manual_seed(4)
    net = nn.Net()
    v = net.input((12, 12, 2), "x")
    v = nn.BatchNorm(name="norm")(nn.Convolution(8, 3, pad=1, bias=False, name="conv")(v))
    v = nn.Dense(30, name="hidden")(nn.Pooling(2)(nn.Activation("relu")(v)))
    v = nn.Dense(4, name="out")(nn.Activation("tanh")(nn.BatchNorm(name="flat")(v)))
    nn.SoftmaxLoss()(v, net.input((), "label", "int32"))
    conv, norm, hidden, flat, out = (
        tn.Conv2d(2, 8, 3, padding=1, bias=False), tn.BatchNorm2d(8), tn.Linear(288, 30), tn.BatchNorm1d(30), tn.Linear(30, 4),
    )  # fmt: skip
    model = tn.Sequential(conv, norm, tn.ReLU(), tn.MaxPool2d(2), tn.Flatten(), hidden, flat, tn.Tanh(), out)
    layers = {
        "conv": (conv, lambda w: w.transpose(0, 2, 3, 1)),
        "norm": (norm, None),
        "hidden": (hidden, lambda w: w.reshape(30, 8, 6, 6).transpose(0, 2, 3, 1).reshape(30, 288)),
        "flat": (flat, None),
        "out": (out, None),
    }
    batches = labelled(np.random.default_rng(4), 32, (12, 12, 2), 4)
    # hidden/bias has no effect before a normalisation. Its gradient is rounding noise, which Adam would amplify.
    hidden.bias.requires_grad_(False)
    wanted = [p for p in model.parameters() if p.requires_grad]
    net.parameters["hidden/bias"][:] = hidden.bias.detach().numpy()
    compare(net, model, layers, torch.optim.Adam(wanted, lr=0.002), nn.Adam(0.002), batches,
            lambda out, y: tn.functional.cross_entropy(out, y), images=True)  # fmt: skip
    np.testing.assert_allclose(net.states["norm/mean"], norm.running_mean.numpy(), rtol=1e-2, atol=1e-3)
    np.testing.assert_allclose(net.states["norm/variance"], norm.running_var.numpy(), rtol=1e-2)


def test_arrays_are_shared_with_pytorch():
    net = nn.Sequential([nn.Dense(3)], input=(4,))
    weight = torch.from_dlpack(net.parameters["dense1/weight"])
    weight.fill_(0.5)
    net.forward(x=torch.ones(2, 4))
    assert (torch.from_dlpack(net["dense1"]) == 2).all()


if __name__ == "__main__":
    cases.run(globals())
