"""Makes the reference of the Lua module from the comments above its functions."""

import re
from pathlib import Path

# (file, title, which of its functions are public)
FILES = [
    ("init.lua", "Functions", r"multiverso\.\w+"),
    ("tables.lua", "Tables", r"\w+Handler:[a-z]\w*"),
    ("tensor.lua", "Tensors", r"methods:\w+"),
]
INTRODUCTION = """`require "multiverso"` returns a table with these functions and classes. [Lua](../lua.md) explains them with examples."""


def functions(text, public):
    """Returns (name with arguments, comment) of each public function. Its comment is the lines with --- above it."""
    pattern = re.compile(
        rf"(?P<said>(?:^[ \t]*---[^\n]*\n)*)^[ \t]*function (?P<name>{public})\((?P<given>[^)]*)\)", re.MULTILINE
    )
    found = []
    for match in pattern.finditer(text):
        said = " ".join(line.strip().removeprefix("---").strip() for line in match["said"].splitlines())
        found.append((f"{match['name'].replace('methods:', 'tensor:')}({match['given']})", said))
    return found


def page(root):
    """Returns the text of the page."""
    parts = ["# Lua: multiverso", "", INTRODUCTION]
    for file, title, public in FILES:
        text = (Path(root) / "bindings" / "lua" / "multiverso" / file).read_text(encoding="utf-8")
        parts += ["", f"## {title}"]
        for head, said in functions(text, public):
            parts += ["", f":::{{lua}} {head}", "", said, ":::"]
    return "\n".join([*parts, ""])
