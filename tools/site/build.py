#!/usr/bin/env python3
"""Builds the documentation as a site: tools/site/build.py [--output FOLDER]

The pages of docs/ are copied to build/docs-source with the links that fit there, beside the start page (docs/site/index.md) and
the reference, which is made of the declarations: C++ and C by Doxygen, Python from sources and stubs, Lua from comments.
Sphinx turns them into build/docs. A warning is an error.
"""

import argparse
import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path

import cpp_reference
import lua_reference
import python_reference

ROOT = Path(__file__).resolve().parent.parent.parent
# Pages outside docs/, and their names on the site.
OTHERS = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "examples/README.md": "examples.md",
}
# The start page of the site takes the place of the README.
START = {"README.md": "index.md"}
LINK = re.compile(r"(?P<head>\]\()(?P<path>[^)#:\s]+)(?P<anchor>#[^)\s]*)?\)")
FENCE = re.compile(r"^(`{3,}).*?^\1\s*$|^    .*?$", re.MULTILINE | re.DOTALL)


def site_name(path):
    """Returns the name on the site of a page of the tree, or None if it is no page. Both are relative to their tops."""
    if path in START or path in OTHERS:
        return {**START, **OTHERS}[path]
    if path.startswith("docs/") and path.endswith(".md") and path.count("/") == 1:
        return path.removeprefix("docs/")
    return None


def with_links_of_the_site(text, page, copy):
    """Returns the text of a page of the tree with links for the site. `copy` is called with each other file that it links to."""

    def changed(match):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), match["path"]))
        target = site_name(path)
        if target is None:
            target = path.removeprefix("docs/") if path.startswith("docs/") else f"files/{path}"
            copy(path, target)
        return f"{match['head']}{target}{match['anchor'] or ''})"

    # Code is copied as it is.
    parts, last = [], 0
    for code in FENCE.finditer(text):
        parts += [LINK.sub(changed, text[last : code.start()]), code[0]]
        last = code.end()
    return "".join([*parts, LINK.sub(changed, text[last:])])


class Pages:
    """The folder from which Sphinx builds. Files that have not changed keep their time, so that Sphinx reads them once."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.written = set()

    def write(self, name, content):
        path = self.folder / name
        self.written.add(path)
        data = content.encode() if isinstance(content, str) else content
        if not path.is_file() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def remove_others(self):
        for path in self.folder.rglob("*"):
            if path.is_file() and path not in self.written:
                path.unlink()


def contents(title, purpose, entries):
    """Returns a page that lists pages: (name, what is there)."""
    lines = [f"# {title}", "", purpose, "", "| | |", "|---|---|"]
    lines += [f"| [{said[0]}]({name}) | {said[1]} |" for name, said in entries]
    lines += ["", "```{toctree}", ":hidden:", "", *(name.rpartition(".")[0] for name, _ in entries), "```", ""]
    return "\n".join(lines)


def write_reference(pages, root, work):
    """Writes the pages of the reference. Without a folder for Doxygen's files, those of C++ and C are empty."""
    for name, text in python_reference.pages(root).items():
        pages.write(f"reference/{name}.md", text)
    entries = [(f"python_{page}.md", (f"`{title}`", said)) for page, title, said, _ in python_reference.PAGES]
    pages.write("reference/python.md", contents("Python", "Every public module, class and function.", entries))
    pages.write("reference/lua_multiverso.md", lua_reference.page(root))
    for name, text in cpp_reference.pages(root, work).items():
        pages.write(f"reference/{name}", text)
    entries = [(f"{page}.rst", (title.removeprefix("C++: "), said)) for page, title, said, _ in cpp_reference.PAGES]
    pages.write("reference/cpp.md", contents("C++", "Everything that `include/pleiad` declares.", entries))
    entries = [(f"{page}.rst", (title.removeprefix("C: "), f"`{name}`")) for page, title, name in cpp_reference.C_PAGES]
    pages.write("reference/c.md", contents("C", "The functions of the two C headers.", entries))


def write_pages(folder, root=ROOT, work=None):
    """Writes all pages of the site. `work` is the folder for Doxygen's files."""
    pages = Pages(folder)

    def copy(path, target):
        source = root / path
        if not source.is_file():
            raise SystemExit(f"a page links to {path}, which is no file")
        pages.write(target, source.read_bytes())

    for path in [*sorted(root.glob("docs/*.md")), *(root / name for name in OTHERS)]:
        name = path.relative_to(root).as_posix()
        if path.is_file():
            pages.write(site_name(name), with_links_of_the_site(path.read_text(encoding="utf-8"), name, copy))
    site = root / "docs" / "site"
    pages.write("index.md", (site / "index.md").read_text(encoding="utf-8"))
    for picture in sorted((root / "docs" / "images").glob("*.*")):
        pages.write(f"images/{picture.name}", picture.read_bytes())
    write_reference(pages, root, work)
    pages.remove_others()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "docs", help="folder of the site")
    parser.add_argument("--work", type=Path, default=ROOT / "build", help="folder of what is made on the way")
    options = parser.parse_args()
    if not shutil.which("doxygen"):
        raise SystemExit("doxygen is missing: run tools/setup.sh docs")
    pages = options.work / "docs-source"
    write_pages(pages, work=options.work / "docs-doxygen")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-a", "-j", "2", "-b", "html"]
    command += ["-c", ROOT / "docs" / "site", "-d", options.work / "docs-trees", pages, options.output]
    if subprocess.run(command).returncode:
        raise SystemExit("the site has warnings")
    print(f"The site is in {options.output}/index.html")


if __name__ == "__main__":
    main()
