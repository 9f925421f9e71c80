#!/usr/bin/env python3
"""Collects the texts that a user can read from the sources: errors, warnings, logs, help and reports.

    tools/messages.py            compare the sources with tests/messages/
    tools/messages.py --write    rewrite tests/messages/ (`make messages`)

tests/messages/ has one file for each folder of sources, so that a reviewer reads all messages of a component in one place and sees each
changed message in the diff. A text is every string literal that contains at least two words, apart from docstrings and the code of tests.
Adjacent literals are joined; {} and {name} stand for values, and ... for a neighbour that is computed.
"""

import argparse
import ast
import difflib
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = Path("tests/messages")
FOLDERS = ("bench", "bindings", "cli", "compat", "examples", "include", "src", "tools")
SUFFIXES = {".cc", ".h", ".hpp", ".c", ".lua", ".py", ".sh"}

# Comments come first, so that a quote in a comment starts no string.
C_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
      |(?P<raw>R"(?P<mark>[^(\s]{0,16})\((?P<body>.*?)\)(?P=mark)")
      |(?P<text>"(?:[^"\\\n]|\\.)*")
      |(?P<char>'(?:[^'\\\n]|\\.)+')
      |(?P<space>\s+)
      |(?P<other>\w+|.)""",
    re.VERBOSE | re.DOTALL,
)
LUA_TOKEN = re.compile(
    r"""(?P<comment>--\[(?P<level>=*)\[.*?\](?P=level)\]|--[^\n]*)
      |(?P<raw>\[(?P<mark>=*)\[(?P<body>.*?)\](?P=mark)\])
      |(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      |(?P<char>(?!))
      |(?P<space>\s+)
      |(?P<other>\.\.|\w+|.)""",
    re.VERBOSE | re.DOTALL,
)
SHELL_SAID = re.compile(
    r"""^\s*(?:echo|say|die|printf)\s+(?:-\w+\s+)*("(?:[^"\\]|\\.)*"|'[^']*'|[^|;&>"'\n]+)""", re.MULTILINE
)

# Two words, of which one is in lower case and at least two letters long.
WORDS = re.compile(r"[\w\"'`)\]}>%,:;.]\s+[\w\"'`(\[{<%]")
LOWER = re.compile(r"(?<![\w.\\/%-])[a-z]{2,}(?![\w/])")
# A line that ends as a statement does, or a signature: the literal holds a program, a job or a declaration.
CODE = re.compile(r"(?:[;{]|\):)(?:\\n|\n)|^def \w+\(|\[(?:shape|label|style)=")


def is_prose(text):
    """Returns whether a literal is a text for people, and not a name, a format or code."""
    return bool(WORDS.search(text)) and bool(LOWER.search(text)) and not CODE.search(text)


def literals(text, token, plus):
    """Returns the string literals of a C++ or Lua source, adjacent ones joined, with ... for a neighbour that is added to it."""
    found, before, parts = [], "", []

    def end(after):
        if parts:
            found.append(("... " if parts[0] == plus else "") + "".join(parts[1:]) + (" ..." if after == plus else ""))
            parts.clear()

    for match in token.finditer(text):
        if match.lastgroup in ("comment", "space") or match["comment"] or match["space"]:
            continue
        if match["text"] or match["raw"]:
            if not parts:
                parts.append(before)
            parts.append(match["body"] if match["raw"] else match["text"][1:-1].replace('\\"', '"'))
        else:
            end(match[0])
            before = match[0]
    end("")
    return found


def of_python(text):
    """Returns the texts of a Python source, without docstrings."""
    tree = ast.parse(text)
    skipped = {
        node.value for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }

    annotations = {getattr(node, name, None) for node in ast.walk(tree) for name in ("annotation", "returns")} - {None}

    def render(node):
        if isinstance(node, ast.Constant):
            return node.value.replace("\\", "\\\\").replace("\n", "\\n") if isinstance(node.value, str) else "..."
        if isinstance(node, ast.JoinedStr):
            return "".join(
                render(part) if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"
                for part in node.values
            )
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return f"{render(node.left)} {render(node.right)}".replace("... ...", "...")
        return "..."

    found = []

    def visit(node):
        if node in skipped or node in annotations:
            return
        is_text = isinstance(node, ast.JoinedStr) or isinstance(node, ast.Constant) and isinstance(node.value, str)
        is_sum = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
        if is_text or is_sum:
            said = render(node)
            if is_text or said.strip(". "):
                found.append(said)
            if is_text:
                return
            for child in ast.walk(node):
                if isinstance(child, ast.Call):
                    visit(child)
            return
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(tree)
    return found


def of_shell(text):
    """Returns the texts that a shell script prints."""
    return [said.strip().strip("\"'").replace("\n", "\\n") for said in SHELL_SAID.findall(text)]


def texts_of(path):
    """Returns the texts of one file, in its order, each once."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        found = of_python(text)
    elif path.suffix == ".sh":
        found = of_shell(text)
    elif path.suffix == ".lua":
        found = literals(text, LUA_TOKEN, "..")
    else:
        found = literals(re.sub(r"^\s*#\s*include.*$", "", text, flags=re.MULTILINE), C_TOKEN, "+")
    return list(dict.fromkeys(said.replace("\n", "\\n") for said in found if is_prose(said)))


def sources(root):
    """Returns the sources whose texts are collected, sorted."""
    found = []
    for folder in FOLDERS:
        found += [path for path in (root / folder).rglob("*") if path.suffix in SUFFIXES and path.is_file()]
    return sorted(path for path in found if "__pycache__" not in path.parts)


def golden_name(path):
    """Returns the golden file of a source: src-table.txt for src/table/table.cc, bindings-python-neon.txt for bindings/python/neon/cli.py."""
    folders = path.parts[:-1]
    return "-".join(folders[: 3 if folders[0] == "bindings" else 2]) + ".txt"


def collect(root):
    """Returns the content of each golden file."""
    pages = {}
    for path in sources(root):
        if texts := texts_of(path):
            name = path.relative_to(root)
            pages.setdefault(golden_name(name), []).append("\n    ".join([name.as_posix(), *texts]) + "\n")
    return {name: "\n".join(parts) for name, parts in sorted(pages.items())}


def differences(root):
    """Returns the unified diff between the golden files and the sources; empty if they agree."""
    now = collect(root)
    kept = {path.name: path.read_text(encoding="utf-8") for path in (root / GOLDEN).glob("*.txt")}
    lines = []
    for name in sorted(now.keys() | kept.keys()):
        old, new = kept.get(name, ""), now.get(name, "")
        lines += difflib.unified_diff(
            old.splitlines(), new.splitlines(), f"{GOLDEN}/{name}", "the sources", lineterm="", n=1
        )
    return lines


def write(root):
    """Rewrites the golden files."""
    (root / GOLDEN).mkdir(parents=True, exist_ok=True)
    pages = collect(root)
    for path in (root / GOLDEN).glob("*.txt"):
        if path.name not in pages:
            path.unlink()
    for name, page in pages.items():
        (root / GOLDEN / name).write_text(page, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="rewrite the golden files")
    if parser.parse_args().write:
        write(ROOT)
        return 0
    lines = differences(ROOT)
    if lines:
        print("\n".join(lines))
        print(
            "messages: the golden files differ from the sources; read the new messages, then run: make messages",
            file=sys.stderr,
        )
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
