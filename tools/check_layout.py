#!/usr/bin/env python3
"""Checks what no compiler checks: that folder order is dependency order, that files stay short and classes narrow, that no file names a
machine's own paths or the host of a package registry, and that the paths of data on docs/architecture.md exist.

    tools/check_layout.py [ROOT]
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from count_functions import public_functions
from data_paths import PAGE, data_paths, picture_of, problems_of_paths

# In src/ an include must point to its own folder or to an earlier one in this list.
ORDER = [
    "core",
    "file",
    "engine",
    "updater",
    "table",
    "session",
    "kernel",
    "data",
    "spatial",
    "nn",
    "plan",
    "train",
    "job",
    "capi",
]
MAX_LINES = {"src": 400, "include": 400, "cli": 400, "bindings": 400, "tests": 600}
MAX_BUILD_LINES = 600  # of a CMakeLists.txt, most of whose lines list sources
# These files are longer until they are split along their concepts.
LONG_FILES = {
    "bindings/python/pleiad/nn/net.py",
    "bindings/python/pleiad/nn/trainer.py",
    "src/table/shard.cc",
    "src/table/shard_map.cc",
    "src/table/table.cc",
}
# A class has at most this many public functions. The facades, to which many small parts lead, may have more.
MAX_FUNCTIONS = 20
MAX_FACADE_FUNCTIONS = 30
FACADES = {("include/pleiad/session.h", "Session"), ("include/pleiad/nn/net.h", "Net"), ("src/table/table.h", "Table")}
# These classes have more until they are split.
WIDE_CLASSES = {
    ("include/pleiad/train.h", "Trainer"),
    ("src/train/trainer_impl.h", "Impl"),
    ("src/table/storage.h", "Storage"),
    ("src/table/table.h", "Table"),
}
SOURCES = {".h", ".hpp", ".c", ".cc", ".cpp", ".py", ".lua", ".sh", ".cmake", ".txt"}

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
REGISTRY = re.compile(
    r"pypi[.]org|pythonhosted[.]org|(?:deb|security|snapshot)[.]debian[.]org|archive[.]ubuntu[.]com"
    r"|conda[.]anaconda[.]org|download[.]pytorch[.]org|registry[.]npmjs[.]org|crates[.]io|luarocks[.]org",
    re.IGNORECASE,
)
OWN_PATH = re.compile(r"(?<![\w.~$})/-])/(?:home|root|work|Users)/[\w.]")


def files_of(root):
    """Returns the files that are, or would be, under version control, relative to `root`."""
    git = subprocess.run(
        ["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--full-name"],
        capture_output=True,
        text=True,
    )
    if git.returncode == 0 and (root / ".git").exists():
        return sorted(Path(name) for name in git.stdout.split("\0") if name and (root / name).is_file())
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in {".git", ".venv", "build", "__pycache__"}]
        found += [Path(folder, name).relative_to(root) for name in names]
    return sorted(found)


def include_problem(root, path, target):
    """Returns the problem of `#include "target"` in `path`, or None."""
    top = path.parts[0]
    if top == "include":
        if not (root / "include" / target).is_file():
            return f'a public header includes "{target}", which is not in include/'
        return None
    if top != "src" or (root / "include" / target).is_file():
        return None
    if len(path.parts) < 3 or path.parts[1] not in ORDER:
        return None  # reported for the file as a whole
    own, folder = path.parts[1], target.split("/")[0]
    if "/" not in target:
        return None  # a header beside its source
    if folder not in ORDER:
        return f'"{target}" is neither in include/ nor in a folder of src/ that the list knows'
    if ORDER.index(folder) > ORDER.index(own):
        return f'{own} may not include "{target}": {folder} stands later in the list'
    return None


def wide_classes(path, text):
    """Yields the classes of a file that have too many public functions, each as "line: message"."""
    for line, name, count in public_functions(text):
        most = MAX_FACADE_FUNCTIONS if (path, name) in FACADES else MAX_FUNCTIONS
        if count > most and (path, name) not in WIDE_CLASSES:
            yield f"{line}: class {name} has {count} public functions; at most {most} are allowed"


def problems_of(root, path):
    """Yields the problems of one file, each as "path:line: message"."""
    try:
        text = (root / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return  # a binary file, such as a picture
    lines = text.splitlines()
    source = path.suffix in SOURCES
    if path.parts[0] == "src" and path.suffix in {".h", ".cc"} and (len(path.parts) < 3 or path.parts[1] not in ORDER):
        yield f"{path}:1: unknown folder of src/; add it to ORDER; known: {', '.join(ORDER)}"
    most = MAX_BUILD_LINES if path.name == "CMakeLists.txt" else MAX_LINES.get(path.parts[0])
    if source and most is not None and len(lines) > most and str(path) not in LONG_FILES:
        yield f"{path}:{most + 1}: {len(lines)} lines; at most {most} are allowed"
    if path.parts[0] in {"src", "include"} and path.suffix in {".h", ".cc"}:
        yield from (f"{path}:{problem}" for problem in wide_classes(str(path), text))
    for number, line in enumerate(lines, 1):
        if match := REGISTRY.search(line):
            yield f"{path}:{number}: names the host of a package registry: {match.group()}"
        if match := OWN_PATH.search(line):
            yield f"{path}:{number}: names a path of somebody's machine: {match.group()}..."
        if source and (match := INCLUDE.match(line)):
            if problem := include_problem(root, path, match.group(1)):
                yield f"{path}:{number}: {problem}"


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent).resolve()
    files = files_of(root)
    problems = [problem for path in files for problem in problems_of(root, path)]
    if (root / PAGE).is_file():
        problems += problems_of_paths(root)
        for title, steps in data_paths(root).items():
            drawn = (
                (root / picture_of(title)).read_text(encoding="utf-8") if (root / picture_of(title)).is_file() else ""
            )
            if any(
                f"{number}. {step.function}" not in drawn.replace("&#45;", "-") for number, step in enumerate(steps, 1)
            ):
                problems.append(f"{picture_of(title)}: differs from {PAGE}; run tools/draw_paths.py")
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"layout: {len(files)} files, {len(problems)} problem{'' if len(problems) == 1 else 's'}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
