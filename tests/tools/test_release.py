"""The version, the name of the distribution and the requirements of its extras agree, as a release needs."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION = re.search(r"^project\(pleiad VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(), re.M).group(1)


def test_the_version_is_the_same_everywhere(run, pleiad, python_env):
    assert PROJECT["dynamic"] == ["version"]  # scikit-build-core reads it from CMakeLists.txt
    assert f'\nversion: "{VERSION}"\n' in (ROOT / "CITATION.cff").read_text()
    changes = re.findall(r"^## \[?([0-9.]+)\]?", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert changes[0] == VERSION
    major_minor = VERSION.rpartition(".")[0]
    assert f"find_package(pleiad {major_minor} REQUIRED)" in (ROOT / "tests" / "outside" / "CMakeLists.txt").read_text()

    said = run(sys.executable, "-c", "import pleiad; print(pleiad.__version__)", env=python_env).stdout
    assert said == f"{VERSION}\n"
    python = [sys.executable, "-m"]
    for command in ([pleiad], [pleiad.parent / "pleiad-tools"], [*python, "neon"], [*python, "pleiad.info"]):
        assert run(*command, "--version", env=python_env).stdout == f"pleiad {VERSION}\n", command


def texts():
    """Every file that a user reads or that prints advice."""
    files = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    for name in files:
        if (
            name
            and not name.startswith("tests/")
            and Path(name).suffix in {".md", ".py", ".cc", ".h", ".lua", ".toml", ".sh"}
        ):
            yield name, (ROOT / name).read_text()


def test_nothing_advises_to_install_the_unrelated_package_of_our_name():
    """On the public index, pleiad is another project, and nobody has reserved pleiad-train: only files are installed."""
    assert PROJECT["name"] == "pleiad-train"
    wrong = [
        f"{name}: {found}"
        for name, text in texts()
        for found in re.findall(r"pip3? install [^\n`]*", text)
        if re.search(r"(?<![\w/.-])(pleiad|pleiad-train)(?![\w-]*\.whl)(\[|$|[\s'\"`,.;:)])", found)
    ]
    assert wrong == []


def test_every_extra_that_a_page_names_exists():
    for name, text in texts():
        for found in re.findall(r"pip install '?[^ '`]*\[([\w,]+)\]", text):
            for extra in found.split(","):
                assert extra in PROJECT["optional-dependencies"], f"{name}: {extra}"


@pytest.mark.parametrize("extra", PROJECT["optional-dependencies"])
def test_an_extra_gives_a_range(extra):
    for requirement in PROJECT["optional-dependencies"][extra]:
        assert "==" not in requirement, requirement
        assert ">=" in requirement or requirement.startswith("pleiad-train["), requirement


def test_the_versions_of_the_tests_lie_in_the_ranges():
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    locked = {}
    for path in (ROOT / "tools").glob("requirements*.txt"):
        for name, version in re.findall(r"^([\w-]+)==([\w.]+)", path.read_text(), re.M):
            locked.setdefault(canonicalize_name(name), set()).add(version)
    checked = 0
    for requirement in [*PROJECT["dependencies"], *sum(PROJECT["optional-dependencies"].values(), [])]:
        wanted = Requirement(requirement)
        for version in locked.get(canonicalize_name(wanted.name), set()):
            allowed = wanted.specifier.contains(version)
            # NumPy and Keras have an old version beside the new one, for Theano.
            assert allowed or len(locked[canonicalize_name(wanted.name)]) > 1, f"{requirement}: tested with {version}"
            checked += allowed
    assert checked >= 12, checked


def test_the_page_lists_every_package_that_a_build_needs():
    script = (ROOT / "tools" / "setup.sh").read_text()
    packages = re.search(r"^build_packages=\((.*?)^\)", script, re.M | re.S).group(1).split()
    page = (ROOT / "docs" / "python.md").read_text()
    assert len(packages) > 20
    assert [name for name in packages if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", page)] == []
