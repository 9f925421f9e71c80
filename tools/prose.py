#!/usr/bin/env python3
"""Checks the prose of the tree: all files with codespell, the pages with proselint, and comments, docstrings, messages and pages
with the house list tools/prose.txt.

    tools/prose.py [FILE...]    check the tree, or these files

A line of tools/prose.txt is a regular expression, " -> " and what to write instead. A pattern that begins with ^ is compared with
the beginning of each sentence.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

import messages

ROOT = Path(__file__).resolve().parent.parent
HOUSE_LIST = ROOT / "tools" / "prose.txt"
GLOSSARY = ROOT / "docs" / "glossary.md"
# Words that are not in codespell's dictionary, and those that tests misspell on purpose.
SPELLINGS = ROOT / "tools" / "spelling.txt"
# proselint's checks that do not fit pages with code and plain ASCII.
UNSUITED = (
    "typography.",
    "lexical_illusions",
    "misc.preferred_forms",
    "misc.phrasal_adjectives",
    "industrial_language.chatspeak",
    "dates_times.dates.decade",
)
# Written by others, or on purpose wrong.
SKIPPED = re.compile(
    r"^(tests/fuzz/corpus/|tests/acceptance/|tests/messages/|src/job/job\.proto|tools/prose\.txt|docs/glossary\.md)"
)
C_LIKE = {".cc", ".h", ".c", ".hpp"}
HASH_LIKE = {".sh", ".cmake", ".yml", ".yaml", ".toml"}
HASH_NAMES = {"Makefile", "CMakeLists.txt", "run"}
C_COMMENT = re.compile(
    r'//[/!]?<?[ \t]?(?P<line>[^\n]*)|/\*+(?P<block>.*?)\*/|R"(?P<m>\w*)\(.*?\)(?P=m)"|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\'',
    re.DOTALL,
)
HASH_COMMENT = re.compile(r"(?:^|\s)#[ \t]?(?P<line>[^!{\n][^\n]*)", re.MULTILINE)
LUA_COMMENT = re.compile(
    r"""--\[=*\[(?P<block>.*?)\]=*\]|---?[ \t]?(?P<line>[^\n]*)|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'""", re.DOTALL
)
CODE = re.compile(r"`[^`\n]*`|\]\([^)\s]*\)|https?://\S+|\"[^\"\n]{1,80}\"")
SENTENCE = re.compile(r"(?:^|(?<=[.!?:])\s+|\n\s*\n\s*)(?=\S)")


def found_comments(text, pattern):
    """Returns (line number, text) of each comment. Lines of a comment that follow each other are one."""
    parts = []
    for match in pattern.finditer(text):
        kind = match.lastgroup if match.lastgroup in ("line", "block") else None
        if kind is None:
            continue
        line = text.count("\n", 0, match.start(kind)) + 1
        start = text.rfind("\n", 0, match.start(kind)) + 1
        alone = not text[start : match.start(kind)].strip(" \t#/!-<*")
        if kind == "line" and alone and parts and parts[-1][2] and parts[-1][1] + parts[-1][0].count("\n") + 1 == line:
            parts[-1][0] += "\n" + match[kind]
        else:
            parts.append([re.sub(r"\n[ \t]*\*[ \t]?", "\n", match[kind]), line, alone])
    return [(line, said) for said, line, _ in parts]


def docstrings(text):
    """Returns (line number, text) of the docstrings of a Python source."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            found.append((node.body[0].lineno, ast.get_docstring(node)))
    return found


def is_prose_file(path):
    """Returns whether a file holds comments or pages that are checked."""
    return path.suffix in C_LIKE | HASH_LIKE | {".md", ".py", ".lua"} or path.name in HASH_NAMES


def prose_of(path):
    """Returns (line number, text) of each comment, docstring, message or paragraph of a file."""
    if not is_prose_file(path):
        return []
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        blank = re.sub(
            r"^```.*?^```|<!--.*?-->|^    .*?$", lambda m: "\n" * m[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL
        )
        found, line = [], 1
        for paragraph in re.split(r"(\n\s*\n|\n(?=[-*|] ))", blank):
            if paragraph.strip() and not paragraph.startswith("#"):
                found.append((line, re.sub(r"^\s*(?:[-*#>]+|\d+\.)\s+", "", paragraph)))
            line += paragraph.count("\n")
        return found
    if path.suffix in C_LIKE:
        found = found_comments(text, C_COMMENT)
    elif path.suffix == ".py":
        found = [(line, said) for line, said in found_comments(text, HASH_COMMENT) if "noqa" not in said] + docstrings(
            text
        )
    elif path.suffix == ".lua":
        found = found_comments(text, LUA_COMMENT)
    else:
        found = found_comments(text, HASH_COMMENT)
    if path.suffix in messages.SUFFIXES and path.relative_to(ROOT).parts[0] in messages.FOLDERS:
        for said in messages.texts_of(path):
            at = text.find(said[:12])
            found.append((text.count("\n", 0, max(at, 0)) + 1, said))
    return found


def house_rules():
    """Returns (pattern, advice, whether it applies only to the beginning of sentences) of each rule."""
    rules = []
    for row in GLOSSARY.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in row.split("|")]
        if len(cells) == 7 and cells[5] and cells[1] != "term" and not cells[5].startswith("-"):
            words = "|".join(word.strip().replace(" ", r"\s+") for word in cells[5].split(","))
            rules.append((re.compile(rf"\b(?:{words})\b", re.IGNORECASE), cells[1], False))
    for line in HOUSE_LIST.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            pattern, advice = line.split(" -> ")
            begins = pattern.startswith("^")
            rules.append((re.compile(pattern.removeprefix("^"), 0 if begins else re.IGNORECASE), advice, begins))
    return rules


def complaints(path, rules):
    """Yields "path:line: message" for each place where a file breaks a rule."""
    for line, said in prose_of(path):
        plain = CODE.sub(lambda m: "`" + "\n" * m[0].count("\n") + "`", said)
        starts = [match.end() for match in SENTENCE.finditer(plain)]
        for pattern, advice, begins in rules:
            places = (pattern.match(plain, at) for at in starts) if begins else pattern.finditer(plain)
            for match in places:
                if match:
                    at = line + plain.count("\n", 0, match.start())
                    yield f'{path.relative_to(ROOT)}:{at}: "{" ".join(match[0].split())}": {advice}'


def tracked():
    """Returns the files under version control that hold prose."""
    names = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return [ROOT / name for name in names if not SKIPPED.match(name) and (ROOT / name).is_file()]


def spelling(files):
    """Returns the complaints of codespell."""
    checked = [path for path in files if is_prose_file(path) or path.suffix == ".txt"]
    command = [sys.executable, "-m", "codespell_lib", "--ignore-words", SPELLINGS, *checked]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.replace(f"{ROOT}/", "").splitlines() + done.stderr.splitlines()


def style(files):
    """Returns the complaints of proselint about pages."""
    pages = [path for path in files if path.suffix == ".md"]
    if not pages:
        return []
    done = subprocess.run([Path(sys.executable).parent / "proselint", "check", *pages], capture_output=True, text=True)
    found = [line.replace(f"{ROOT}/", "") for line in done.stdout.splitlines() if re.match(r"\S+:\d+:\d+: ", line)]
    return [line for line in found if not line.split(": ")[1].startswith(UNSUITED)] + done.stderr.splitlines()


def main():
    files = [Path(name).resolve() for name in sys.argv[1:]] or tracked()
    rules = house_rules()
    found = [text for path in files for text in complaints(path, rules)] + spelling(files) + style(files)
    print("\n".join(found), end="\n" if found else "", file=sys.stderr)
    print(f"prose: {len(files)} files, {len(found)} problem{'' if len(found) == 1 else 's'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
