"""External programs, built with an installed package as a user's would be: with find_package and with pkg-config, in C
and in C++, run alone and by mpirun.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[1] / "outside"
PROGRAMS = ["plain_c", "mv_c", "mv_cxx", "native_cxx"]
# pkg-config knows what to link; the language of each program is listed here.
COMPILERS = {
    "plain_c": ["gcc", "-std=c99", "-pedantic"],
    "mv_c": ["gcc"],
    "mv_cxx": ["g++", "-std=c++11", "-pedantic"],
    "native_cxx": ["g++", "-std=c++20"],
}
PACKAGES = {"plain_c": "pleiad", "mv_c": "multiverso", "mv_cxx": "multiverso", "native_cxx": "pleiad"}


def must_run(command, **more):
    result = subprocess.run([str(w) for w in command], capture_output=True, text=True, timeout=3000, **more)
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="session")
def cmake(build_dir):
    """The CMake that configured the build."""
    return re.search(r"^CMAKE_COMMAND:INTERNAL=(.*)$", (build_dir / "CMakeCache.txt").read_text(), re.M).group(1)


@pytest.fixture(scope="session")
def installed(build_dir, cmake, tmp_path_factory):
    """The package, installed and then moved: it must not depend on its original paths."""
    first = tmp_path_factory.mktemp("first") / "prefix"
    must_run([cmake, "--install", build_dir, "--prefix", first])
    moved = tmp_path_factory.mktemp("moved") / "prefix"
    shutil.move(first, moved)
    return moved


@pytest.fixture(scope="session")
def by_find_package(installed, cmake, tmp_path_factory):
    """Programs built by CMake, in a copy of the sources."""
    source, build = tmp_path_factory.mktemp("outside"), tmp_path_factory.mktemp("built")
    shutil.copytree(SOURCES, source, dirs_exist_ok=True)
    must_run([cmake, "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={installed}", "-DCMAKE_BUILD_TYPE=Release"])
    must_run([cmake, "--build", build, "--parallel", 2])
    return {name: build / name for name in [*PROGRAMS, "singa_main"]}


@pytest.fixture(scope="session")
def by_pkg_config(installed, tmp_path_factory):
    build = tmp_path_factory.mktemp("by_pkg_config")
    lib = next(installed.glob("lib*/**/pkgconfig")).parent
    for name in PROGRAMS:
        source = next(SOURCES.glob(f"{name}.c*"))
        flags = must_run(
            ["pkg-config", "--cflags", "--libs", PACKAGES[name]],
            env={"PATH": "/usr/bin", "PKG_CONFIG_PATH": str(lib / "pkgconfig")},
        ).split()
        warnings = ["-Wall", "-Wextra", "-Werror"]
        must_run([*COMPILERS[name], *warnings, source, *flags, "-o", build / name])
    return {name: build / name for name in PROGRAMS}


@pytest.fixture(params=["find_package", "pkg_config"])
def programs(request):
    return request.getfixturevalue(f"by_{request.param}")


def check(job, name, ranks):
    assert job.returncode == 0, job.stdout + job.stderr
    assert sorted(re.findall(rf"^{name}\b.*? (?:rank|worker) (\d+)\b.* of {ranks} is right$", job.stdout, re.M)) == [
        str(rank) for rank in range(ranks)
    ], job.stdout


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_alone(programs, run, name):
    check(run(programs[name]), name, 1)


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_in_many_processes(programs, mpirun, name, ranks):
    check(mpirun(ranks, programs[name]), name, ranks)


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("mv_c", ["-sync=true"]),
        ("mv_c", ["-updater_type=sgd", "descends"]),
        ("mv_c", ["-sync=true", "-updater_type=sgd", "descends", "-omp_threads=4"]),
        ("mv_cxx", ["sync"]),
    ],
    ids=["c-sync", "c-sgd", "c-sync-sgd", "cxx-sync"],
)
def test_a_program_with_flags(by_find_package, mpirun, name, arguments, ranks):
    check(mpirun(ranks, by_find_package[name], *arguments), name, ranks)


JOB = """
name: "outside" train_steps: 60 disp_freq: 1 test_freq: 60 checkpoint_freq: 40
train_one_batch { alg: kBP }
updater { user_type: "kSigned" learning_rate { type: kFixed base_lr: 0.02 } }
neuralnet {
  layer { name: "data" type: kCSVInput store_conf { path: "points.csv" batchsize: 24 shape: 2 } }
  layer { name: "scaled" user_type: "kScaled" srclayers: "data" param { name: "s" init { type: kConstant value: 0.5 } } }
  layer { name: "ip" type: kInnerProduct srclayers: "scaled" innerproduct_conf { num_output: 2 }
    param { name: "w" init { type: kGaussian std: 0.1 } } param { name: "b" init { type: kConstant value: 0 } } }
  layer { name: "loss" type: kSoftmaxLoss srclayers: "ip" srclayers: "data" }
}
cluster { workspace: "work" }
"""


def test_a_main_with_a_layer_and_an_updater_of_its_own(by_find_package, run, mpirun, tmp_path):
    """SINGA's Driver: the same losses alone and on ranks, also stopped and resumed; and a test of the trained
    parameters.
    """
    points = [(i % 2, (i % 2 * 2 - 1) + 0.4 * ((i * 7 % 11) / 5 - 1), (i * 5 % 13) / 6 - 1) for i in range(48)]
    (tmp_path / "points.csv").write_text("".join(f"{kind},{x:.4f},{y:.4f}\n" for kind, x, y in points))
    (tmp_path / "job.conf").write_text(JOB)
    program = by_find_package["singa_main"]

    def numbers(job, phase, ranks=1):
        """Returns the losses by step. Checks that every rank printed the same."""
        assert job.returncode == 0, job.stdout + job.stderr
        lines = re.findall(rf"^{phase} (\d+) loss (.*)$", job.stdout, re.M)
        by_step = {int(step): float(value) for step, value in lines}
        assert len(lines) == len(by_step) * ranks and len(set(lines)) == len(by_step), job.stdout
        return [value for _, value in sorted(by_step.items())]

    words = ["-conf", "job.conf", "-singa_conf", "x"]
    alone = run(program, *words, cwd=tmp_path)
    losses = numbers(alone, "train")
    assert len(losses) == 60 and losses[-1] < losses[0] / 1.5, alone.stdout
    assert numbers(run(program, *words, "-resume", cwd=tmp_path), "train") == []
    two = mpirun(2, "-wdir", tmp_path, program, *words)
    of_two = numbers(two, "train", 2)
    assert all(abs(a - b) <= 1e-5 * b for a, b in zip(of_two, losses, strict=True)), two.stdout
    for ranks, whole in ((1, losses), (2, of_two)):
        apart = JOB.replace('"work"', f'"stopped{ranks}"')
        (tmp_path / "job.conf").write_text(apart.replace("train_steps: 60", "train_steps: 40"))
        first = numbers(mpirun(ranks, "-wdir", tmp_path, program, *words), "train", ranks)
        (tmp_path / "job.conf").write_text(apart)
        second = numbers(mpirun(ranks, "-wdir", tmp_path, program, *words, "-resume"), "train", ranks)
        assert len(first) == 40 and first + second == whole, (ranks, first, second)
    checkpoint = tmp_path / "work" / "checkpoint" / "step60-worker0"
    (tmp_path / "job.conf").write_text(f'checkpoint_path: "{checkpoint}"\n{JOB}')
    tested = numbers(run(program, *words, "-test", cwd=tmp_path), "test")
    assert abs(tested[0] - numbers(alone, "test")[-1]) <= 1e-5, (tested, alone.stdout)
    wrong = run(program, "-conf", "nowhere.conf", cwd=tmp_path)
    assert wrong.returncode == 1 and "nowhere.conf" in wrong.stderr


def test_a_program_that_links_libmultiverso_alone(installed, run, tmp_path):
    lib = next(installed.glob("lib*/**/pkgconfig")).parent
    must_run(
        ["gcc", SOURCES / "mv_c.c", f"-I{installed / 'include'}", f"-L{lib}", "-lmultiverso", "-o", tmp_path / "mv_c"]
    )
    check(run(tmp_path / "mv_c", env={"LD_LIBRARY_PATH": str(lib)}), "mv_c", 1)


def test_a_project_in_c_alone_finds_the_package(installed, cmake, run, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(c_alone LANGUAGES C)\nfind_package(pleiad REQUIRED)\n"
        f'add_executable(plain_c "{SOURCES / "plain_c.c"}")\ntarget_link_libraries(plain_c PRIVATE pleiad::pleiad)\n'
    )
    must_run([cmake, "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={installed}"])
    must_run([cmake, "--build", tmp_path / "build"])
    check(run(tmp_path / "build" / "plain_c"), "plain_c", 1)


def test_what_is_installed(installed, build_dir, run):
    lib = next(installed.glob("lib*/**/pkgconfig")).parent
    headers = {str(path.relative_to(installed / "include")) for path in (installed / "include").rglob("*.h*")}
    public = SOURCES.parent.parent / "include"
    assert headers == {str(path.relative_to(public)) for path in public.rglob("*.h*")}
    for library in ("libpleiad.so", "libmultiverso.so", "libpleiad_mpi.so"):
        assert (lib / library).exists(), library
    assert run(installed / "bin" / "pleiad", "--version").returncode == 0
    for path in [*lib.rglob("*.cmake"), *lib.rglob("*.pc")]:
        text = path.read_text()
        assert str(build_dir) not in text and "spdlog" not in text and "fmt" not in text, path
