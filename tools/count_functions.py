"""Counts the public member functions of C++ classes, for tools/check_layout.py.

Reads declarations as text. Overloads count. Constructors, destructors, operators, friends, deleted functions and overrides of a base class
do not.
"""

import re

NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"\(.*?\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*',
    re.DOTALL | re.MULTILINE,
)
CLASS = re.compile(
    r"(?<!\benum )\b(?P<key>class|struct)\s+(?:\[\[[^\]]*\]\]\s*)?(?:[A-Z_0-9]+(?:\([^)]*\))?\s+)?(?P<name>\w+(?:::\w+)*)\s*"
    r"(?:final\s*)?(?::(?!:)[^;{}()]*)?$"
)
ACCESS = re.compile(r"^\s*(public|protected|private)\s*:(?!:)")
FUNCTION = re.compile(r"(?:[\w>&*\]]\s+|[&*>]\s*)(?P<name>\w+)\s*\(")


def without_noise(text):
    """Returns the code without comments, literals and preprocessor lines; line numbers stay."""
    return NOISE.sub(lambda match: "\n" * match.group().count("\n"), text)


def is_counted(declaration, class_name):
    """Returns whether a member's declaration, up to its body or semicolon, is a function that counts."""
    text = re.sub(r"\[\[[^\]]*\]\]|\balignas\s*\([^)]*\)|\bPLEIAD_\w+\s*\([^)]*\)", " ", declaration)
    text = re.sub(r"^\s*template\s*<.*?>\s*(?=[\w:~\[])", " ", text, flags=re.DOTALL)
    if re.match(r"\s*(?:friend|using|typedef|static_assert|enum|class|struct|union)\b", text):
        return False
    if re.search(r"\boperator\b|=\s*delete\b|\boverride\b", text):
        return False
    if re.search(r"^[^(]*=", text):  # a variable with an initialiser
        text = text.partition("=")[0]
    match = FUNCTION.search(re.sub(r"<[^<>()]*(?:<[^<>()]*>[^<>()]*)*>", "<>", text))
    return match is not None and match.group("name") != class_name


class _Class:
    def __init__(self, line, key, name):
        self.line, self.name, self.count = line, name, 0
        self.access = "private" if key == "class" else "public"

    def add(self, declaration):
        self.count += self.access == "public" and is_counted(declaration, self.name)


def end_of_parentheses(code, position):
    """Returns the position of the ")" that closes the "(" at `position`."""
    depth = 0
    while position < len(code):
        depth += {"(": 1, ")": -1}.get(code[position], 0)
        if depth == 0:
            break
        position += 1
    return position


def public_functions(text):
    """Returns (line, class, number of public functions) for each class and struct that `text` defines."""
    code = without_noise(text)
    start = position = 0
    braces = []  # what the open braces belong to: a class, or None
    classes = []
    while position < len(code):
        letter = code[position]
        if letter not in "({};:":
            position += 1
            continue
        inside = braces[-1] if braces else None
        declaration = code[start:position]
        if letter == "(":
            position = end_of_parentheses(code, position)
        elif letter == "{":
            head = CLASS.search(declaration)
            if head and "(" not in declaration[: head.start()]:
                line = code.count("\n", 0, start + head.start()) + 1
                classes.append(_Class(line, head.group("key"), head.group("name").split("::")[-1]))
                braces.append(classes[-1])
            else:
                if inside:
                    inside.add(declaration)
                braces.append(None)
            start = position + 1
        elif letter == "}":
            if braces:
                braces.pop()
            start = position + 1
        elif letter == ";":
            if inside:
                inside.add(declaration)
            start = position + 1
        elif letter == ":" and inside and (access := ACCESS.match(declaration + ":")):
            inside.access = access.group(1)
            start = position + 1
        position += 1
    return [(each.line, each.name, each.count) for each in classes]
