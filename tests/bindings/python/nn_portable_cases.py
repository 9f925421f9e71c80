"""pleiad.nn and PyTorch: parameters are copied in both directions without a change, and forward passes agree."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import cases
import numpy as np
import safetensors.torch
import torch
import torch.nn as tn

import pleiad
from pleiad import nn

torch.manual_seed(4)
FOLDER = Path(tempfile.mkdtemp())
RNG = np.random.default_rng(8)
IMAGES = RNG.normal(size=(5, 9, 7, 3)).astype("float32")


class Model(tn.Module):
    """Groups, batch normalisation of maps and of flattened maps, dense layers over an image and over vectors."""

    def __init__(self):
        super().__init__()
        self.conv1 = tn.Conv2d(3, 8, (3, 5), padding=(1, 2))
        self.norm1 = tn.BatchNorm2d(8)
        self.conv2 = tn.Conv2d(8, 6, 3, groups=2, bias=False)
        self.norm2 = tn.BatchNorm1d(6 * 7 * 5)
        self.hidden = tn.Linear(6 * 7 * 5, 11)
        self.scores = tn.Linear(11, 4)

    def forward(self, x):
        x = torch.relu(self.norm1(self.conv1(x)))
        x = self.norm2(torch.flatten(self.conv2(x), 1))
        return self.scores(torch.tanh(self.hidden(x)))


def net_of(dtype="float32"):
    layers = [
        nn.Convolution(8, (3, 5), pad=(1, 2), name="conv1"),
        nn.BatchNorm(name="norm1"),
        nn.Activation("relu"),
        nn.Convolution(6, 3, groups=2, bias=False, name="conv2"),
        nn.Flatten(),
        nn.BatchNorm(name="norm2"),
        nn.Dense(11, "tanh", name="hidden"),
        nn.Dense(4, name="scores"),
    ]
    return nn.Sequential(layers, input=(9, 7, 3), loss=nn.SoftmaxLoss(), dtype=dtype)


def model():
    """Returns a model whose running averages differ from their initial values."""
    made = Model().train()
    for _ in range(3):
        made(torch.randn(6, 3, 9, 7) * 2 + 1)
    return made.eval()


def outputs(made, net):
    theirs = made(torch.from_numpy(np.ascontiguousarray(np.moveaxis(IMAGES, -1, 1)))).detach().numpy()
    net.forward(x=IMAGES)
    return theirs, net["scores"]


def equal(state, other):
    names = [name for name in state if not name.endswith("num_batches_tracked")]
    assert names == list(other)
    return all(torch.equal(state[name], torch.as_tensor(np.asarray(other[name]))) for name in names)


def test_a_state_dict_of_pytorch_is_taken_and_given_back():
    made, net = model(), net_of()
    net.load_state_dict(made.state_dict())
    theirs, ours = outputs(made, net)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    back = net.state_dict(layout="torch")
    assert equal(made.state_dict(), back)
    fresh = Model().eval()
    fresh.load_state_dict({name: torch.from_numpy(array) for name, array in back.items()})
    assert torch.equal(fresh(torch.ones(2, 3, 9, 7)), made(torch.ones(2, 3, 9, 7)))
    other = net_of()
    other.load_state_dict(net.state_dict())  # Pleiad's own layout, by name
    assert equal(made.state_dict(), other.state_dict(layout="torch"))
    wide = net_of("float64")
    # NumPy arrays, converted to double.
    wide.load_state_dict({name: array.numpy() for name, array in made.state_dict().items()})
    theirs, ours = outputs(made, wide)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_modules_with_other_names_are_matched_in_order_or_by_a_map():
    plain = tn.Sequential(tn.Linear(6, 5), tn.ReLU(), tn.Linear(5, 3))
    net = nn.Sequential([nn.Dense(5, "relu", name="a"), nn.Dense(3, name="b")], input=(6,))
    net.load_state_dict(plain.state_dict())
    x = RNG.normal(size=(4, 6)).astype("float32")
    net.forward(x=x)
    np.testing.assert_allclose(net["b"], plain(torch.from_numpy(x)).detach().numpy(), rtol=1e-5, atol=1e-6)
    net.load_state_dict(plain.state_dict(), modules={"b": "2", "a": "0"})
    with cases.raises(pleiad.InvalidArgument, 'layer with parameters "c"', "a, b"):
        net.load_state_dict(plain.state_dict(), modules={"c": "0"})
    with cases.raises(pleiad.InvalidArgument, "1 modules", "2 layers"):
        net.load_state_dict(plain[0].state_dict(prefix="x."))


def test_what_does_not_fit_is_named_and_changes_nothing():
    made, net = model(), net_of()
    before = net.state_dict()
    state = dict(made.state_dict())
    with cases.raises(pleiad.InvalidArgument, '"hidden.weight", for layer "hidden"', r"\(11, 210\)", r"\(3\)"):
        net.load_state_dict({**state, "hidden.weight": torch.zeros(3)})
    with cases.raises(pleiad.InvalidArgument, '"norm1.bias", for layer "norm1", is missing'):
        net.load_state_dict({name: array for name, array in state.items() if name != "norm1.bias"})
    with cases.raises(pleiad.InvalidArgument, "hidden.weigth", 'did you mean "hidden.weight"'):
        net.load_state_dict({**state, "hidden.weigth": torch.zeros(3)})
    with cases.raises(pleiad.InvalidArgument, "expected floats", "int64"):
        net.load_state_dict({**state, "scores.bias": torch.zeros(4, dtype=torch.int64)})
    with cases.raises(pleiad.InvalidArgument, "layout", "pytorch"):
        net.state_dict(layout="pytorch")
    assert all((before[name] == array).all() for name, array in net.state_dict().items())


def test_tied_weights_are_taken_once():
    net = nn.Net()
    code = nn.Dense(3, "sigmoid", name="code")(net.input((8,), name="x"))
    nn.Dense(8, tied="code/weight", name="decoded")(code)
    state = net.state_dict(layout="torch")
    assert {name: array.shape for name, array in state.items()} == {
        "code.weight": (3, 8),
        "code.bias": (3,),
        "decoded.bias": (8,),
    }
    net.load_state_dict(state, layout="torch")


def test_recurrent_layers_and_embeddings_are_modules_too():
    words = RNG.integers(0, 9, (3, 6)).astype("int32")
    ways = [(tn.RNN, nn.RNN, {}), (tn.GRU, nn.GRU, {}), (tn.LSTM, nn.LSTM, {}), (tn.LSTM, nn.LSTM, {"bias": False})]
    for theirs, ours, more in ways:
        made = tn.ModuleDict(
            {"words": tn.Embedding(9, 5), "cell": theirs(5, 7, batch_first=True, **more), "scores": tn.Linear(7, 4)}
        )
        apart = theirs is tn.GRU
        if apart:
            with torch.no_grad():
                made["cell"].bias_hh_l0[14:] = 0  # pleiad.nn has no bias there
        net = nn.Net()
        value = nn.Embedding(9, 5, name="words")(net.input((6,), "x", "int32"))
        nn.Dense(4, last_axis=True, name="scores")(ours(7, name="cell", **more)(value))
        net.load_state_dict(made.state_dict())
        net.forward(x=words)
        expected = made["scores"](made["cell"](made["words"](torch.from_numpy(words)))[0]).detach().numpy()
        np.testing.assert_allclose(net["scores"], expected, rtol=1e-4, atol=1e-5)
        back = net.state_dict(layout="torch")
        assert list(back) == list(made.state_dict())
        fresh = nn.Net()
        value = nn.Embedding(9, 5, name="words")(fresh.input((6,), "x", "int32"))
        nn.Dense(4, last_axis=True, name="scores")(ours(7, name="cell", **more)(value))
        fresh.load_state_dict(back, layout="torch")
        assert all((array == net.parameters[name]).all() for name, array in fresh.parameters.items())
        made.load_state_dict({name: torch.from_numpy(array) for name, array in back.items()})
        again = made["scores"](made["cell"](made["words"](torch.from_numpy(words)))[0]).detach().numpy()
        np.testing.assert_allclose(again, expected, rtol=1e-5, atol=1e-6)
        if apart:
            state = {**made.state_dict(), "cell.bias_hh_l0": torch.ones(21)}
            with cases.raises(pleiad.InvalidArgument, '"cell.bias_hh_l0", for layer "cell"', "from 14 on", "14 is 1"):
                net.load_state_dict(state)


def test_a_pooling_across_maps_is_a_convolution_over_positions():
    made = tn.Sequential(tn.Conv2d(3, 5, 1, bias=False))
    net = nn.Sequential([nn.CrossMapPooling(5, name="0")], input=(9, 7, 3))
    net.load_state_dict(made.state_dict())
    net.forward(x=IMAGES)
    theirs = made(torch.from_numpy(np.ascontiguousarray(np.moveaxis(IMAGES, -1, 1)))).detach().numpy()
    np.testing.assert_allclose(np.moveaxis(net["0"], -1, 1), theirs, rtol=1e-4, atol=1e-5)
    assert equal(made.state_dict(), net.state_dict(layout="torch"))


def test_files_are_read_by_each_other():
    made, net = model(), net_of()
    net.load_state_dict(made.state_dict())
    net.save_file(FOLDER / "net.safetensors")
    assert equal(made.state_dict(), dict(sorted_like(made, safetensors.torch.load_file(FOLDER / "net.safetensors"))))
    Model().load_state_dict(safetensors.torch.load_file(FOLDER / "net.safetensors"))
    net.save_file(FOLDER / "own.safetensors", layout="pleiad")
    safetensors.torch.save_file(made.state_dict(), FOLDER / "theirs.safetensors")
    torch.save(made.state_dict(), FOLDER / "state.pt")
    torch.save({"epoch": 3, "state_dict": made.state_dict()}, FOLDER / "nested.pt")
    torch.save(dict(made.named_parameters()) | dict(made.named_buffers()), FOLDER / "plain.pt")
    for name in ("net.safetensors", "own.safetensors", "theirs.safetensors", "state.pt", "nested.pt", "plain.pt"):
        fresh = net_of()
        fresh.load_file(FOLDER / name)
        assert equal(made.state_dict(), fresh.state_dict(layout="torch")), name
    torch.save(made.half().state_dict(), FOLDER / "half.pt")
    with cases.raises(pleiad.FileError, "half.pt", '"conv1.weight"', "HalfStorage"):
        net.load_file(FOLDER / "half.pt")


def sorted_like(made, state):
    return ((name, state[name]) for name in made.state_dict() if name in state and "num_batches" not in name)


def test_damaged_files_are_refused_and_never_run():
    made, net = model(), net_of()
    torch.save(made.state_dict(), FOLDER / "good.pt")
    good = (FOLDER / "good.pt").read_bytes()
    random = np.random.default_rng(2)
    refused = 0
    for _ in range(400):
        bad = bytearray(good)
        for _ in range(random.integers(1, 4)):
            at = int(random.integers(len(bad)))
            if random.random() < 0.2:
                del bad[at:]
            elif random.random() < 0.5:  # where names and shapes are stored
                at = int(random.integers(min(len(bad), 3000)))
                bad[at] = int(random.integers(256))
            else:
                bad[at] = int(random.integers(256))
            if not bad:
                bad = bytearray(b"P")
        (FOLDER / "bad.pt").write_bytes(bad)
        try:
            net.load_file(FOLDER / "bad.pt")
        except pleiad.FileError as problem:
            refused += 1
            assert "bad.pt" in str(problem)
    assert refused > 100

    class Evil:
        def __reduce__(self):
            return (os.system, (f"touch {FOLDER}/ran",))

    torch.save({"conv1.weight": Evil()}, FOLDER / "evil.pt")
    with cases.raises(pleiad.FileError, "evil.pt", '"conv1.weight"', "PyTorch tensor"):
        net.load_file(FOLDER / "evil.pt")
    assert not (FOLDER / "ran").exists()


def test_commands_export_and_import():
    made, net = model(), net_of()
    torch.save(made.state_dict(), FOLDER / "model.pt")
    (FOLDER / "net.json").write_text(net.text())

    def pleiad_command(*words):
        return subprocess.run([os.environ["PLEIAD"], *map(str, words)], capture_output=True, text=True, timeout=600)

    done = pleiad_command(
        "import", FOLDER / "model.pt", FOLDER / "start", "--net", FOLDER / "net.json", "--rule", "adam"
    )
    assert done.returncode == 0 and "parameters, at step 0" in done.stdout, done.stderr
    trainer = nn.Trainer(net, nn.Adam(), batch=5)
    trainer.load(FOLDER / "start")
    assert equal(made.state_dict(), net.state_dict(layout="torch")) and trainer.step_number == 0
    trainer.save(FOLDER / "end")
    done = pleiad_command("export", FOLDER / "end", FOLDER / "end.safetensors")
    assert done.returncode == 0, done.stderr
    Model().load_state_dict(safetensors.torch.load_file(FOLDER / "end.safetensors"))
    done = pleiad_command("export", FOLDER / "end", FOLDER / "x.safetensors", "--layout", "trch")
    assert done.returncode == 1 and 'did you mean "torch"' in done.stderr
    done = pleiad_command("import", FOLDER / "model.pt", FOLDER / "x", "--net", "mlp")
    assert done.returncode == 1 and "model.pt" in done.stderr and not (FOLDER / "x").exists()
    done = pleiad_command("import", FOLDER / "model.pt", FOLDER / "x", "--net", FOLDER / "net.json", "--module", "a")
    assert done.returncode == 2 and "LAYER=MODULE" in done.stderr


if __name__ == "__main__":
    sys.exit(cases.run(dict(globals())))
