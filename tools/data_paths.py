"""Reads the lists of functions on docs/architecture.md."""

import re
from pathlib import Path
from typing import NamedTuple

PAGE = Path("docs/architecture.md")
STEP = re.compile(r"^\d+\. `([\w:.~]+)` in \[([\w./]+)\]\(\.\./([\w./]+)\)", re.MULTILINE)


class Step(NamedTuple):
    """A function of a path, such as `Table::add` in src/table/table.cc."""

    function: str
    file: str

    @property
    def name(self):
        """The function's name without its class."""
        return re.split(r"::|\.", self.function)[-1]


def data_paths(root):
    """Returns {title: [Step, ...]} for each section of the page that has a list."""
    sections = re.split(r"^## ", (root / PAGE).read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    paths = {}
    for section in sections:
        steps = [Step(function, file) for function, file, _ in STEP.findall(section)]
        if steps:
            paths[section.partition("\n")[0]] = steps
    return paths


def picture_of(title):
    """Returns the file of the path's picture."""
    return (
        Path("docs/images")
        / f"path_{title.lower().replace('.', '_').replace(' ', '_').removeprefix('a_').removeprefix('an_')}.svg"
    )


def problems_of_paths(root):
    """Yields a message for each step whose function is not in its file, or that neither this file nor an earlier one calls."""
    for title, steps in data_paths(root).items():
        callers = ""
        for number, step in enumerate(steps):
            where = f"{PAGE}: {title}: {step.function}"
            file = root / step.file
            if not file.is_file():
                yield f"{where}: there is no file {step.file}"
                continue
            text = file.read_text(encoding="utf-8")
            call = re.compile(rf"\b{re.escape(step.name)}\s*\(")
            if not call.search(text):
                yield f"{where}: {step.file} has no function of this name"
            if number > 0 and not call.search(callers) and len(call.findall(text)) < 2:
                yield f"{where}: no file of this path calls it"
            callers += text
