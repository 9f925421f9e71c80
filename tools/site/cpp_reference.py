"""Makes the reference of C++ and C from the public headers, as Doxygen parses them."""

import re
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

# (page, title, what the page is for, headers). Each header of include/pleiad is on one page.
PAGES = [
    (
        "cpp_tables",
        "C++: sessions and tables",
        "Start a session, share tables, make collective calls, save snapshots and register update rules.",
        [
            "session.h",
            "options.h",
            "table.h",
            "view.h",
            "dtype.h",
            "rule.h",
            "snapshot.h",
            "error.h",
            "api.h",
            "pleiad.hpp",
        ],
    ),
    (
        "cpp_nets",
        "C++: nets and layers",
        "Build nets from layers, and write layers.",
        ["nn/net.h", "nn/layers.h", "nn/layer.h", "nn/pass.h", "nn/init.h", "nn/capability.h", "tensor.h", "choice.h"],
    ),
    (
        "cpp_training",
        "C++: training and plans",
        "Train nets, split them over ranks, and run jobs.",
        [
            "train.h",
            "stack.h",
            "sparse_stack.h",
            "plan.h",
            "spatial.h",
            "grid.h",
            "interval.h",
            "job.h",
            "driver.h",
            "events.h",
        ],
    ),
    ("cpp_data", "C++: data and files", "Read and write samples and records.", ["data.h", "records.h"]),
]
C_HEADERS = ["pleiad.h", "multiverso.h"]
C_PAGES = [
    ("c_pleiad", "C: pleiad.h", "pleiad/pleiad.h"),
    ("c_multiverso", "C: Multiverso's API", "multiverso/c_api.h"),
]
SETTINGS = """
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
EXTRACT_ALL = YES
AUTOLINK_SUPPORT = NO
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = PLEIAD_API= __cplusplus=202002L
QUIET = YES
WARNINGS = NO
WARN_IF_UNDOCUMENTED = NO
JAVADOC_AUTOBRIEF = NO
EXTENSION_MAPPING = h=C++
"""


def prepared(text, in_c):
    """Returns a header with comments in the form that Doxygen reads: those of C get a second asterisk, and indented lines in
    comments become blocks of code."""
    lines = []
    for number, line in enumerate(text.splitlines()):
        if in_c and number > 0:
            line = re.sub(r"^(\s*)/\* (?!---)", r"\1/** ", line)
            line = re.sub(r"(\S.*[,;]|= \d+)(\s*)/\* (.*\*/)$", r"\1\2/**< \3", line)
        indented = re.match(r"^(\s*(?:///| \*)) {3,}(?=\S)", line)
        if indented:
            if lines and not re.match(r"^\s*(?:///| \*)(?: {4,}\S.*)?$", lines[-1]):
                lines.append(indented[1])
            line = indented[1] + "     " + line[indented.end() :]
        elif lines and re.match(r"^\s*(?:///| \*) {5}\S", lines[-1]) and re.match(r"^\s*(?:///| \*) \S", line):
            lines.append(re.match(r"^\s*(?:///| \*)", line)[0])
        lines.append(line)
    return "\n".join([*lines, ""])


def escaped(text):
    """Returns text in which no character has a meaning for reStructuredText."""
    return re.sub(r"([\\*`|]|_(?=\W|$))", r"\\\1", text)


BLOCKS = ("programlisting", "itemizedlist", "orderedlist", "simplesect", "parameterlist", "preformatted", "verbatim")


def inline(nodes):
    """Returns text and elements of a paragraph of Doxygen's XML as one line of reStructuredText."""
    parts = []
    for node in nodes:
        if isinstance(node, str):
            parts.append(escaped(node))
            continue
        said = "".join(node.itertext())
        marks = {"computeroutput": "``", "verbatim": "``", "emphasis": "*", "bold": "**"}.get(node.tag)
        if node.tag == "sp":
            parts.append(" ")
        elif marks and said.strip():
            parts.append(f"{marks}{said.strip() if marks == '``' else escaped(said.strip())}{marks}\\ ")
        else:
            parts.append(escaped(said))
    # "\\ " ends inline markup before a letter; before a space it would remove the space.
    return re.sub(r"\s+", " ", re.sub(r"\\ (?=\s|$)", "", "".join(parts))).strip()


def listing(node):
    """Returns the lines of a block of code."""
    lines = []
    for line in node.iter("codeline"):
        lines.append("".join(" " if part.tag == "sp" else (part.text or "") for part in walk(line)).rstrip())
    return lines


def walk(node):
    """Yields pseudo elements for all text and spaces of a node, in order."""
    yield node
    for child in node:
        yield from walk(child)
        if child.tail:
            text = ElementTree.Element("text")
            text.text = child.tail
            yield text


def block(node):
    """Returns the lines of a block inside a paragraph: code, or a list."""
    if node.tag == "programlisting":
        return ["::", "", *(f"   {line}" for line in listing(node)), ""]
    if node.tag in ("verbatim", "preformatted"):
        return ["::", "", *(f"   {line}" for line in (node.text or "").splitlines()), ""]
    lines = []
    for item in node.findall("listitem"):
        said = "\n".join(blocks(item)).strip().splitlines()
        lines += [("- " if number == 0 else "  ") + line for number, line in enumerate(said)]
    return [*lines, ""]


def blocks(node):
    """Returns the lines of a description as reStructuredText."""
    lines = []
    for para in node.findall("para"):
        pending = [para.text or ""]
        for child in [*para, None]:
            is_block = (
                child is not None
                and child.tag in BLOCKS
                and not (child.tag == "verbatim" and "\n" not in (child.text or ""))
            )
            if (child is None or is_block) and inline(pending):
                lines += [inline(pending), ""]
            if child is None:
                break
            if is_block:
                lines += block(child)
                pending = []
            else:
                pending.append(child)
            pending.append(child.tail or "")
    return lines


def description(node):
    """Returns the lines of a member's description, the brief one and the detailed one."""
    lines = []
    for tag in ("briefdescription", "detaileddescription", "inbodydescription"):
        found = node.find(tag)
        if found is not None:
            lines += blocks(found)
    return lines


def flat(node):
    """Returns the text of a node in one line."""
    text = re.sub(r"\s+", " ", "".join(node.itertext())).strip() if node is not None else ""
    return re.sub(r"\[\[nodiscard\]\]\s*|\b(?:inline|constexpr|friend)\s+", "", text)


def template_of(node):
    """Returns "template<...> " of a declaration with parameters, and otherwise nothing."""
    found = node.find("templateparamlist")
    if found is None:
        return ""
    parameters = []
    for param in found.findall("param"):
        name = flat(param.find("declname"))
        default = flat(param.find("defval"))
        parameters.append(
            flat(param.find("type")) + (f" {name}" if name else "") + (f" = {default}" if default else "")
        )
    return f"template<{', '.join(parameters)}> "


def declaration(member, in_c, described=False):
    """Returns the directive and the text of a member's declaration, or None twice for a typedef of something that is
    described itself."""
    kind, name = member.get("kind"), flat(member.find("name"))
    text, arguments = flat(member.find("type")), flat(member.find("argsstring"))
    if kind == "function":
        arguments = re.sub(r"\)(const|noexcept|override)", r") \1", arguments)
        arguments = re.sub(r"\s*=\s*(default|delete|0)$", r" = \1", arguments)
        words = [word for word in ("static", "explicit", "virtual") if member.get(word, "no") in ("yes", "virtual")]
        if "virtual" not in words and member.get("virt", "non-virtual") != "non-virtual":
            words.append("virtual")
        return "function", template_of(member) + " ".join([*words, f"{text} {name}".strip() + arguments])
    if kind == "typedef":
        if in_c:
            if text in (f"struct {name}", f"enum {name}"):  # described itself, or has no fields that a program may use
                return (None, None) if described else ("type", name)
            return "type", f"{text} {name}{arguments}" if not text.endswith("(*") else f"{text}{name}{arguments}"
        return "type", f"{template_of(member)}{name} = {text}{arguments}"
    if kind == "enum":
        strong = "-class" if member.get("strong") == "yes" else ""
        return f"enum{'' if in_c else strong}", name
    if kind == "variable":
        value = flat(member.find("initializer"))
        value = f" {value}" if value and not re.search(r"\{\s*\.|\(", value) and not in_c else ""
        return ("member" if in_c else "var"), f"{text} {name}{arguments}{value}"
    return None, None


def follows(lines, line):
    """Returns whether the declaration at this line follows another one without a blank line or a comment between them."""
    return line >= 2 and lines[line - 2].strip() and not re.match(r"\s*(///|\*|/\*|//|public:|#)", lines[line - 2])


def shares(name, first, said):
    """Returns whether the comment of the function `first` is also that of the next one, which has none of its own."""
    text = " ".join(said)
    if not text or name == first or re.search(rf"\b{name}\b", text):
        return True
    if text.startswith("Returns") or re.search(r"\w\(\)", text):
        return False
    own, other = (re.sub("^(?:pleiad|MV)_", "", each) for each in (name, first))
    return own[:3] == other[:3] or own[-4:] == other[-4:]


class Reference:
    """The declarations of the headers, as Doxygen's XML files describe them."""

    def __init__(self, headers, xml):
        self.headers = Path(headers)
        self.trees = {
            path.stem: ElementTree.parse(path).getroot()[0] for path in xml.glob("*.xml") if path.stem != "index"
        }
        self.trees = {name: tree for name, tree in self.trees.items() if tree.tag == "compounddef"}
        enums = [each for tree in self.trees.values() for each in tree.iter("memberdef") if each.get("kind") == "enum"]
        self.described = {tree.find("compoundname").text for tree in self.trees.values()} | {
            flat(each.find("name")) for each in enums
        }

    def of_file(self, name):
        for tree in self.trees.values():
            if tree.get("kind") == "file" and tree.find("location").get("file").endswith(f"/{name}"):
                return tree
        raise SystemExit(f"Doxygen has not read {name}")

    def members(self, container, lines, depth, domain, seen):
        """Returns the lines of the members of a class, a file or a namespace."""
        found = []
        for section in container.findall("sectiondef"):
            if section.get("kind", "").startswith(("private", "define", "package")):
                continue
            found += [member for member in section.findall("memberdef") if member.get("prot") != "private"]
        found.sort(key=lambda member: int(member.find("location").get("line")))
        out, before = [], None
        for member in found:
            name = flat(member.find("name"))
            if member.get("id") in seen or not name or name.startswith(("@", "~", "operator=")) or name.endswith("_"):
                continue
            if "detail" in flat(member.find("definition")).split("::")[:-1]:
                continue
            seen.add(member.get("id"))
            kind, text = declaration(member, domain == "c", name in self.described)
            if (
                kind is None
                or "=delete" in text.replace(" ", "")
                or (domain == "cpp" and "&&)" in text and f"{name}({name}" in text)
            ):
                continue
            said = description(member)
            line = int(member.find("location").get("line"))
            if (
                kind == before == "function"
                and not said
                and follows(lines, line)
                and shares(name, out[-1][3], out[-1][2])
            ):
                out[-1][1].append(text)  # declarations that share a comment
            else:
                body = said
                if kind.startswith("enum"):
                    body = [*said, *self.enumerators(member, depth + 1, domain)]
                out.append((kind, [text], body, name))
            before = kind
        result = []
        for kind, texts, body, _ in out:
            result += directive(f"{domain}:{kind}", texts, body, depth)
        return result

    def enumerators(self, member, depth, domain):
        lines = []
        for value in member.findall("enumvalue"):
            initial = flat(value.find("initializer"))
            text = flat(value.find("name")) + (f" {initial}" if initial else "")
            lines += directive(f"{domain}:enumerator", [text], description(value), 0)
        return lines

    def of_class(self, tree, lines, depth, domain, seen):
        name = tree.find("compoundname").text
        if "detail::" in name:
            return []
        short = name.removeprefix("pleiad::").removeprefix("nn::")
        bases = [flat(base) for base in tree.findall("basecompoundref") if base.get("prot") == "public"]
        head = template_of(tree) + short + (f" : public {', public '.join(bases)}" if bases else "")
        body = [*description(tree), *self.members(tree, lines, 0, domain, seen)]
        for inner in tree.findall("innerclass"):
            if inner.get("prot", "public") == "public" and inner.get("refid") in self.trees:
                inner_tree = self.trees[inner.get("refid")]
                inner_lines = self.of_class(inner_tree, lines, 0, domain, seen)
                body += [line.replace(f"{short}::", "", 1) if line.startswith("..") else line for line in inner_lines]
        kind = "struct" if tree.get("kind") == "struct" else "class"
        return directive(f"{domain}:{kind}", [head], body, depth)

    def of_header(self, name, domain):
        """Returns the lines of everything that a header declares, in its order."""
        tree = self.of_file(name)
        lines = (self.headers / name).read_text(encoding="utf-8").splitlines()
        seen, parts = set(), []
        file = tree.find("location").get("file")
        classes = []
        for inner in tree.findall("innerclass"):
            found = self.trees.get(inner.get("refid"))
            if found is not None and found.find("location").get("file") == file:
                outer = found.find("compoundname").text.rpartition("::")[0]
                if outer in ("", "pleiad", "pleiad::nn") and "<" not in found.find("compoundname").text:
                    classes.append((int(found.find("location").get("line")), found))
        for line, found in sorted(classes, key=lambda each: each[0]):
            parts.append((line, self.of_class(found, lines, 0, domain, seen)))
        holders = [
            tree,
            *(
                self.trees[each.get("refid")]
                for each in tree.findall("innernamespace")
                if each.get("refid") in self.trees
            ),
        ]
        loose = ElementTree.Element("compounddef")
        section = ElementTree.SubElement(loose, "sectiondef", kind="func")
        for holder in holders:
            if holder.find("compoundname").text in ("pleiad::detail", "std"):
                continue
            for member in holder.iter("memberdef"):
                if member.find("location").get("file") == file:
                    section.append(member)
        rest = self.members(loose, lines, 0, domain, seen)
        return [*(line for _, part in parts for line in part), *rest]


def directive(name, heads, body, depth):
    """Returns the lines of a directive of reStructuredText."""
    start = f".. {name}:: "
    lines = [
        start + heads[0],
        *(" " * len(start) + head for head in heads[1:]),
        "",
        *(f"   {line}".rstrip() for line in body),
        "",
    ]
    return [("   " * depth + line).rstrip() for line in lines]


def introduction(text):
    """Returns the comment at the start of a header as reStructuredText."""
    first = re.match(r"(?://[^\n]*\n)+|/\*.*?\*/", text, re.DOTALL)
    if not first:
        return []
    lines = [re.sub(r"^(?://|/\*| \*/?)|\*/$", "", line) for line in first[0].splitlines()]
    out, code = [], False
    for line in lines:
        plain = line[1:] if line.startswith(" ") else line
        indented = plain.startswith("  ")
        if indented and not code:
            out += ["", "::", ""]
        if not indented and code and plain.strip():
            out.append("")
        code = indented or (code and not plain.strip())
        out.append(f"   {plain}" if indented else escaped(plain).replace(r"\`", "``"))
    return [*(line.rstrip() for line in out), ""]


def run_doxygen(root, work):
    """Copies the headers in the form that Doxygen reads and parses them. Returns the folders of both."""
    headers, xml = work / "headers", work / "xml"
    include = Path(root) / "include"
    for path in [*sorted(include.glob("pleiad/**/*.h*")), include / "multiverso" / "c_api.h"]:
        name = path.relative_to(include)
        in_c = name.as_posix() in [header for *_, header in C_PAGES]
        target = headers / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(prepared(path.read_text(encoding="utf-8"), in_c), encoding="utf-8")
    settings = f"{SETTINGS}\nINPUT = {headers}\nRECURSIVE = YES\nFILE_PATTERNS = *.h *.hpp\nOUTPUT_DIRECTORY = {work}\n"
    subprocess.run(["doxygen", "-"], input=settings, text=True, check=True, stdout=subprocess.DEVNULL)
    return headers, xml


def title_lines(text, mark):
    return [text, mark * len(text), ""]


def pages(root, work):
    """Returns {file: text} of the pages. Without a folder for Doxygen, the pages have their introductions only."""
    root = Path(root)
    named = {header for *_, headers in PAGES for header in headers} | set(C_HEADERS)
    found = {
        path.relative_to(root / "include" / "pleiad").as_posix()
        for path in (root / "include" / "pleiad").glob("**/*.h*")
    }
    if named != found:
        raise SystemExit(f"tools/site/cpp_reference.py: PAGES and include/pleiad differ: {sorted(named ^ found)}")
    reference = None
    if work is not None:
        work.mkdir(parents=True, exist_ok=True)
        headers, xml = run_doxygen(root, work)
        reference = Reference(headers, xml)
    made = {}
    for page, title, purpose, names in PAGES:
        lines = [*title_lines(title, "="), purpose, ""]
        for name in names:
            path = root / "include" / "pleiad" / name
            body = reference.of_header(f"pleiad/{name}", "cpp") if reference else []
            if name in ("api.h",):
                continue
            lines += title_lines(f"pleiad/{name}", "-")
            lines += introduction(path.read_text(encoding="utf-8"))
            lines += [f".. cpp:namespace:: {'pleiad::nn' if name.startswith('nn/') else 'pleiad'}", "", *body]
        made[f"{page}.rst"] = "\n".join([*lines, ""])
    for page, title, name in C_PAGES:
        text = (root / "include" / name).read_text(encoding="utf-8")
        body = reference.of_header(name, "c") if reference else []
        made[f"{page}.rst"] = "\n".join([*title_lines(title, "="), *introduction(text), *body, ""])
    return made
