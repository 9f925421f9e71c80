"""The programs behave as the documentation says."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_page_of_parameters_is_the_output_of_the_command(pleiad):
    printed = subprocess.run([str(pleiad), "options"], capture_output=True, text=True, check=True).stdout
    assert printed == (ROOT / "docs" / "parameters.md").read_text(), "run: pleiad options > docs/parameters.md"


def test_every_option_of_the_headers_is_on_the_page_of_parameters():
    header = (ROOT / "include" / "pleiad" / "options.h").read_text()
    page = (ROOT / "docs" / "parameters.md").read_text()
    body = header[header.index("struct SessionOptions") :]
    body = body[: body.index("struct AddOptions")] + body[body.index("struct TableOptions") :]
    names = re.findall(r"^  (?:std::string|double|bool|int|DType) (\w+)", body, re.MULTILINE)
    assert len(names) > 30
    assert [name for name in names if f"| `{name}` |" not in page] == []


def test_the_page_of_job_conf_is_made_of_the_proto():
    page = ROOT / "docs" / "job_conf.md"
    made = subprocess.run([sys.executable, ROOT / "tools" / "job_page.py"], capture_output=True, text=True, check=True)
    assert made.stdout == page.read_text(), "run: tools/job_page.py > docs/job_conf.md"


def anchors(text):
    """Returns the anchors of a page's headings, as a browser computes them."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_between_the_pages_lead_somewhere():
    broken = []
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for path, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", text):
            target = page.parent / path if path else page
            if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
                broken.append(f"{page.name}: {path}#{anchor}")
    assert broken == []


def test_every_source_that_a_page_names_exists():
    tops = "src|include|tests|tools|bench|cli|bindings|compat"
    folders = "|".join(folder.name for folder in (ROOT / "src").iterdir() if folder.is_dir())
    missing = []
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for name in re.findall(rf"`((?:{tops})/[\w./-]+)`", text):
            if not re.search("NAME|TARGET", name) and not (ROOT / name).exists():
                missing.append(f"{page.name}: {name}")
        for name in re.findall(rf"`((?:{folders})/[\w/]+(?:\.h|\.cc)?)`", text):
            if "NAME" not in name and page.name == "design.md" and not list((ROOT / "src").glob(f"{name}*")):
                missing.append(f"{page.name}: src/{name}")
    assert missing == []


def test_every_make_target_that_a_page_names_exists():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for name in re.findall(r"`make ([a-z-]+)", page.read_text()):
            assert name in targets, f"{page.name}: make {name}"


PROGRAMS = {
    "first.cc": "docs/tutorial.md",
    "first_multiverso.c": "docs/tutorial.md",
    "first.py": "README.md",
    "demo/singa_mlp.py": "docs/singa.md",
    "lua/first.lua": "docs/lua.md",
}


def test_the_programs_on_the_pages_are_the_examples():
    for name, page in PROGRAMS.items():
        assert (ROOT / "examples" / name).read_text() in (ROOT / page).read_text(), f"{page}: {name}"


def test_the_examples_print_the_output_that_the_pages_show(build_dir, mpirun, python_job):
    first = build_dir / "bin" / "first"
    alone = subprocess.run([first], capture_output=True, text=True, check=True, timeout=30)
    assert alone.stdout == "1 ranks made weights[0] = 0.5\n"
    assert mpirun(4, first, timeout=60).stdout == "4 ranks made weights[0] = 2\n"
    multiverso = build_dir / "bin" / "first_multiverso"
    assert mpirun(2, multiverso, timeout=60).stdout == "2 workers made row 10 = 4 4 4\n"
    sgd = mpirun(2, multiverso, "-updater_type=sgd", timeout=60)
    assert sgd.stdout == "2 workers made row 10 = -4 -4 -4\n"
    assert python_job(2, ROOT / "examples" / "first.py").stdout == "2 workers made row 10 = [4. 4. 4.]\n"
