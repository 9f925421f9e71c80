"""The wheel in a system that has Python and nothing of ours, and beside other libraries in one process."""

import itertools
import subprocess
import sys
import tarfile
import time

import pytest
from conftest import ROOT

pytestmark = pytest.mark.full

TRAIN = """
import numpy, pleiad
from pleiad import nn

session = pleiad.init()
assert session.size == 2 and session.hosts == 1
values = numpy.random.default_rng(1).random((6400, 784), dtype="float32")
labels = (values[:, :392].mean(axis=1) > values[:, 392:].mean(axis=1)).astype("int32")
net = nn.Sequential([nn.Dense(64, "relu"), nn.Dense(2)], input=(784,), loss=nn.SoftmaxLoss())
history = nn.Trainer(net, nn.Adam(), batch=64).fit(values, labels, epochs=5, progress=False)
if session.rank == 0:
    print("trained by", session.size, "ranks, last loss", history["loss"][-1])
"""

# /proc, /dev and shared memory of the new system, and a network that has loopback only.
ENTER = """
mount --bind /dev "$1/dev" && mount -t tmpfs tmpfs "$1/dev/shm" && mount -t proc proc "$1/proc" && ip link set lo up
exec chroot "$1" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root bash -euc "$2"
"""
INSTALL = """
python3 -m venv /env
/env/bin/pip install -q --no-index --find-links /wheels /wheels/pleiad_train-*.whl
/env/bin/python -m pleiad.info
/env/bin/pleiad launch -n 2 /env/bin/python /train.py
"""
ABSENT = """
for name in gcc cc g++ ld mpirun orted cmake; do ! command -v $name || exit 1; done
for name in stdio.h Python.h; do [ -z "$(find / -xdev -name $name)" ] || exit 1; done
[ -z "$(find / -xdev -name 'libgomp*' -o -xdev -name 'libopenblas*' -o -xdev -name 'libzmq*' -o -xdev -name 'libmpi*')" ]
"""


@pytest.fixture(scope="module")
def debian(tmp_path_factory):
    """Debian 12 with Python, as `tools/setup.sh chroot` packs it."""
    archive = ROOT / "build" / "debian12.tar"
    assert archive.exists(), "run: tools/setup.sh chroot"
    folder = tmp_path_factory.mktemp("debian")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="fully_trusted")
    return folder


def enter(folder, script, timeout=600):
    command = [
        "unshare",
        "--mount",
        "--pid",
        "--net",
        "--ipc",
        "--fork",
        "--kill-child",
        "bash",
        "-euc",
        ENTER,
        "_",
        folder,
        script,
    ]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=timeout)


def test_it_installs_and_trains_on_a_debian_without_compiler_headers_and_our_packages(debian, wheel):
    assert wheel.stat().st_size < 80_000_000
    assert "-manylinux_2_" in wheel.name
    none = enter(debian, ABSENT)
    assert none.returncode == 0, none.stdout + none.stderr
    (debian / "wheels").mkdir()
    (debian / "wheels" / wheel.name).write_bytes(wheel.read_bytes())
    (debian / "train.py").write_text(TRAIN)
    # The requirements are fetched from the index before, because the new system has no network.
    fetch = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "-q", "--dest", debian / "wheels"]
    subprocess.run([*fetch, "numpy", "pyyaml", "safetensors"], check=True, timeout=600)

    began = time.monotonic()
    done = enter(debian, INSTALL)
    print(f"{wheel.stat().st_size / 1e6:.1f} MB; installed and trained after {time.monotonic() - began:.0f} s")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "engines    solo (no MPI: libmpi.so.40" in done.stdout
    assert "trained by 2 ranks" in done.stdout
    assert float(done.stdout.rpartition("last loss ")[2]) < 0.5  # it begins at 0.69


# Each library computes with all its threads, before and after the others have been used.
BESIDE = """
import sys
import numpy


def use_torch():
    import torch

    weight = torch.ones(300, 300, requires_grad=True)
    values = torch.arange(90000.0).reshape(300, 300) / 90000
    (values @ weight).sum().backward()
    assert torch.allclose(weight.grad, values.sum(0)[:, None].expand(300, 300), rtol=1e-4)
    assert torch.nn.Conv2d(3, 8, 3)(torch.ones(4, 3, 32, 32)).shape == (4, 8, 30, 30)


def use_jax():
    import jax

    assert jax.jit(lambda x: x @ x)(numpy.full((300, 300), 0.5, numpy.float32))[0, 0] == 75


def use_numpy():
    assert (numpy.ones((400, 400)) @ numpy.ones((400, 400)) == 400).all()
    assert abs(numpy.linalg.inv(numpy.eye(200) * 2)[7, 7] - 0.5) < 1e-12


def use_pleiad():
    import pleiad
    from pleiad import nn

    if pleiad.sessions._current is None:
        pleiad.init(log_level="error")
    x = numpy.random.default_rng(1).random((256, 3, 16, 16), dtype="float32")
    net = nn.Sequential(
        [nn.Convolution(8, 3, activation="relu"), nn.Flatten(), nn.Dense(64, "relu"), nn.Dense(2)],
        input=(3, 16, 16), loss=nn.SoftmaxLoss(),
    )
    history = nn.Trainer(net, nn.Adam(), batch=64).fit(x, (x[:, 0].mean((1, 2)) > 0.5).astype("int32"), epochs=2, progress=False)
    assert numpy.isfinite(history["loss"]).all()


for turn in range(2):
    for name in sys.argv[1:]:
        globals()["use_" + name]()
libraries = {line.split()[-1] for line in open("/proc/self/maps") if "pleiad_train.libs" in line}
assert any("libgomp" in path for path in libraries) and any("libdnnl" in path for path in libraries), libraries
print("all computed")
"""


@pytest.fixture(scope="module")
def python_with_the_wheel(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("beside") / "env"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=600)
    pip = [folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-deps"]
    subprocess.run([*pip, wheel], check=True, timeout=600)
    return folder / "bin" / "python"


@pytest.mark.parametrize("order", list(itertools.permutations(["torch", "jax", "pleiad"])), ids="-".join)
def test_it_computes_beside_other_libraries_in_any_order(run, python_with_the_wheel, order, tmp_path):
    """The frameworks come from the environment of the tests; each has an OpenMP or a BLAS of its own."""
    (site,) = [path for path in sys.path if path.endswith("site-packages")][:1]
    script = tmp_path / "script.py"
    script.write_text(BESIDE)
    done = run(python_with_the_wheel, script, *order, "numpy", env={"PYTHONPATH": site}, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("all computed\n")
