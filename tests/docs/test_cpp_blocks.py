"""Every block of C++ on the pages compiles as a reader would copy it: it is a whole program, or its first line says
that it continues the program above it inside main().
"""

import os
import re
import shlex

import pytest
from conftest import ROOT

CONTINUES = "// Continues the program above, inside main()."
END = "  session.shutdown();\n}\n"  # a continuation is inserted before this line


def programs(text):
    """Returns the (line, code) of each program of a page. A continuation extends the program above it."""
    found = []
    for match in re.finditer(r"^```cpp\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        line, code = text[: match.start()].count("\n") + 1, match.group(1)
        if code.startswith(CONTINUES):
            above, program = found.pop()
            head, end, tail = program.rpartition(END)
            assert end and not tail, f"line {above}: a program that is continued ends with {END!r}"
            found.append((above, head + code + END))
        else:
            assert "int main(" in code, f"line {line}: neither a program nor {CONTINUES!r}"
            found.append((line, code))
    return found


PAGES = [page for page in [*ROOT.glob("*.md"), *sorted((ROOT / "docs").glob("*.md"))] if "```cpp" in page.read_text()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_blocks_of_a_page_compile(run, tmp_path, page):
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    for line, code in programs(page.read_text()):
        source = tmp_path / f"{page.stem}_{line}.cc"
        source.write_text(code)
        done = run(*compiler, "-std=c++20", "-fsyntax-only", f"-I{ROOT / 'include'}", source, timeout=60)
        assert done.returncode == 0, done.stderr
