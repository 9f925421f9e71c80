"""The documentation as a site: its links, its reference, and how near the answers are to the start page."""

import html.parser
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest
from conftest import ROOT
from test_docs import anchors

sys.path.insert(0, str(ROOT / "tools" / "site"))
import build  # noqa: E402
import cpp_reference  # noqa: E402
import lua_reference  # noqa: E402
import python_reference  # noqa: E402

# A question, the clicks from the start page to its answer, and words of the answer.
QUESTIONS = {
    "sync or async": (["questions.md#synchronous-or-asynchronous"], ["Start with synchronous training", 'clock="ssp"']),
    "how many servers": (["questions.md#how-many-servers-do-i-need"], ["You need no separate servers", "PLEIAD_ROLE"]),
    "which rank owns a row": (
        ["questions.md#how-many-servers-do-i-need", "cluster.md#which-rank-owns-what"],
        ["divided over the servers"],
    ),
    "learning rate of a table": (
        ["questions.md#what-is-the-learning-rate-of-a-table"],
        ["learning_rate=", "divide the rate by N"],
    ),
    "resume": (["questions.md#how-do-i-resume-a-run"], ["trainer.resume()", "Checkpoint(", "load_last()", "-resume"]),
    "two machines": (
        ["questions.md#how-do-i-use-two-machines", "cluster.md#several-hosts"],
        ["--hostfile hosts", "the same Open MPI", "ssh without a password"],
    ),
    "a node dies": (["howto_failures.md#what-the-others-see"], ["TransportError", "host_timeout"]),
    "continue after a death": (["howto_failures.md#make-the-job-continue"], ["--restart 10", "load_last()"]),
    "what survives a death, exactly": (
        ["howto_failures.md#what-the-others-see", "consistency.md#when-a-rank-dies"],
        ["Asynchronous tables stay usable"],
    ),
    "my own layer in Python": (["questions.md#how-do-i-write-a-layer-in-python"], ["def forward", "def backward"]),
    "my own data": (["questions.md#how-do-i-train-on-my-own-data", "data.md#stores"], ["csv", "hdf5", "images"]),
    "GPU": (["questions.md#does-it-use-a-gpu"], ["There is no GPU back end"]),
    "licence and citation": (
        ["questions.md#what-is-the-licence-and-how-do-i-cite-it"],
        ["Apache License 2.0", "@software{pleiad"],
    ),
}
TASKS = {
    "train my pytorch model on four processes": "tutorial_pytorch.md",
    "run my singa job": "tutorial_singa.md",
    "split large images": "howto_large_images.md",
    "train embeddings": "howto_embeddings.md",
    "run on a cluster": "cluster.md",
    "what if a node dies?": "howto_failures.md",
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The pages of the site before Sphinx: {name: text}. The reference of C++ and C has no entries."""
    folder = tmp_path_factory.mktemp("pages")
    build.write_pages(folder)
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") if path.suffix in (".md", ".rst") else ""
        for path in folder.rglob("*")
        if path.is_file()
    }


def links(name, text):
    """Returns (page, anchor) of each link of a page, and of each card of the start page."""
    text = build.FENCE.sub(lambda code: code[0] if code[0].startswith("```{toctree}") else "", text)
    found = [(match["path"], match["anchor"]) for match in build.LINK.finditer(text)]
    cards = re.findall(r"^:link: (\w+)(?:\.html)?(#\S+)?$", text, re.MULTILINE)
    found += [(f"{target}.md", anchor) for target, anchor in cards]
    found += [("", anchor) for anchor in re.findall(r"\]\((#[^)\s]+)\)", text)]
    base = Path(name).parent
    return [
        ((base / path).as_posix() if path else name, (anchor or "").removeprefix("#"))
        for path, anchor in found
        if not path.startswith("http")
    ]


def normal(path):
    return Path(*[part for part in Path(path).parts if part != "."]).as_posix().replace("reference/../", "")


def test_every_link_of_a_page_leads_somewhere(pages):
    broken = []
    for name, text in pages.items():
        for path, anchor in links(name, text) if name.endswith(".md") else []:
            target = normal(path)
            if target not in pages or (anchor and target.endswith(".md") and anchor not in anchors(pages[target])):
                broken.append(f"{name}: {path}#{anchor}")
    assert broken == []


def test_every_page_is_in_the_navigation_once(pages):
    listed = []
    for name, text in pages.items():
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            entries = [re.sub(r".*<(.+)>", r"\1", line) for line in block.splitlines() if line and line[0] != ":"]
            listed += [(Path(name).parent / entry).as_posix() for entry in entries]
    expected = [name.rpartition(".")[0] for name in pages if name.endswith((".md", ".rst")) and name != "index.md"]
    assert sorted(listed) == sorted(name for name in expected if not name.startswith("files/"))


@pytest.mark.parametrize("task", TASKS)
def test_a_task_is_a_card_of_the_start_page(pages, task):
    cards = re.findall(r"\{grid-item-card\} (.+)\n:link: (\S+)", pages["index.md"])
    assert (task, TASKS[task]) in [(title.lower(), f"{link}.md") for title, link in cards]


def section(text, anchor):
    """Returns the text under a heading, up to the next one of its level or above."""
    lines, level, found = text.splitlines(), 0, []
    fenced = False
    for line in lines:
        fenced ^= line.startswith("```")
        heading = None if fenced else re.match(r"(#+) (.+)$", line)
        if heading and level and len(heading[1]) <= level:
            break
        if heading and not level and anchor in anchors(line):
            level = len(heading[1])
        if level:
            found.append(line)
    return "\n".join(found)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_typical_question_is_answered_at_most_two_clicks_from_the_start(pages, question):
    clicks, words = QUESTIONS[question]
    assert len(clicks) <= 2
    page, seen = "index.md", ""
    for click in clicks:
        target, _, anchor = click.partition("#")
        here = [(normal(path), found) for path, found in links(page, pages[page])]
        # A link to the page is a click, too: its sections are on the same page.
        assert (target, anchor) in here or (target, "") in here, f"{page} has no link to {click}"
        page = target
        seen += section(pages[page], anchor)
    missing = [word for word in words if word not in seen]
    assert missing == []


def test_the_citation_has_the_version_of_the_project(pages):
    version = re.search(r"^project\(pleiad VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
    assert f"version = {{{version}}}" in section(pages["questions.md"], "what-is-the-licence-and-how-do-i-cite-it")


def test_every_public_name_of_python_has_an_entry(pages):
    sources = python_reference.Sources(ROOT / "bindings" / "python")
    missing = []
    for page, _, _, modules in python_reference.PAGES:
        for module in modules:
            for name in python_reference.public_names(sources.module(module)):
                if not re.search(rf"\{{py:\w+\}} {re.escape(name)}\b", pages[f"reference/python_{page}.md"]):
                    holder, node = sources.resolve(sources.module(module), name)
                    if node is not None:  # a module has a heading
                        missing.append(f"{module}.{name}")
    assert missing == []


def test_every_public_function_of_lua_has_a_comment():
    found = []
    for file, _, public in lua_reference.FILES:
        text = (ROOT / "bindings" / "lua" / "multiverso" / file).read_text(encoding="utf-8")
        found += lua_reference.functions(text, public)
    assert len(found) > 35
    assert [head for head, said in found if not said] == []


def test_links_and_docstrings_are_turned_into_those_of_the_site():
    copied = []
    text = "[a](../SECURITY.md#x) [b](nn.md) [c](../src/a.cc)\n\n```\n[d](../src/d.cc)\n```\n"
    made = build.with_links_of_the_site(text, "docs/python.md", lambda *names: copied.append(names))
    assert made == "[a](security.md#x) [b](nn.md) [c](files/src/a.cc)\n\n```\n[d](../src/d.cc)\n```\n"
    assert copied == [("src/a.cc", "files/src/a.cc")]
    said = python_reference.markdown("Adds.\n\nArgs:\n    x: what\n        it is.\n\n>>> 1\n1")
    assert said == "Adds.\n\n:param x: what it is.\n\n```pycon\n>>> 1\n1\n```"


def test_comments_of_headers_are_read_as_they_are_meant():
    header = "/* The file. */\n/* Starts.\n *   name   what\n * The end. */\nint a(void);\nint b; /* a field */\n"
    made = cpp_reference.prepared(header, in_c=True)
    assert "/* The file. */" in made and "/** Starts." in made and "int b;\n" not in made and "/**< a field */" in made
    assert " *\n *     name   what\n *\n * The end. */" in made
    both = ["Collective: all ranks create the same tables."]
    assert cpp_reference.shares("create_matrix", "create_array", both)
    assert not cpp_reference.shares("MV_NumWorkers", "MV_Barrier", ["Blocks until all ranks have called it."])
    assert not cpp_reference.shares("options", "engine", ["Returns its name."])
    assert cpp_reference.shares("server_id", "worker_id", ["worker_id() and server_id() return -1."])


# The whole site.


class Anchors(html.parser.HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.ids = [], {""}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.ids.add(given.get("id"))
        for name in ("href", "src"):
            if given.get(name):
                self.links.append(given[name])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, as `make docs` builds it without a warning."""
    if not shutil.which("doxygen"):
        pytest.fail("doxygen is missing: run tools/setup.sh docs", pytrace=False)
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, ROOT / "tools" / "site" / "build.py", "--output", folder / "html", "--work", folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "html"


@pytest.mark.full
def test_no_link_of_the_site_is_dead(site):
    found = {path: Anchors(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    broken = []
    for path, page in found.items():
        for link in page.links:
            if re.match(r"[a-z]+:|//", link):
                continue
            name, _, anchor = unquote(link).partition("#")
            target = (path.parent / name.partition("?")[0]).resolve() if name else path
            if not target.exists() or (anchor and target in found and anchor not in found[target].ids):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert len(found) > 50
    assert broken == []


@pytest.mark.full
def test_the_reference_has_every_declaration_and_the_search_finds_it(site):
    pages = {path.stem: path.read_text(encoding="utf-8") for path in (site / "reference").glob("*.html")}
    missing = []
    for page, _, _, headers in cpp_reference.PAGES:
        for header in headers:
            text = (ROOT / "include" / "pleiad" / header).read_text(encoding="utf-8")
            names = re.findall(r"^(?:class|struct|enum class)(?: PLEIAD_API)? (\w+)[^;<]*[{:]", text, re.MULTILINE)
            missing += [f"{header}: {name}" for name in names if f">{name}<" not in pages[page]]
    for page, _, header in cpp_reference.C_PAGES:
        text = (ROOT / "include" / header).read_text(encoding="utf-8")
        names = re.findall(r"^PLEIAD_API [\w ]+[ *](\w+)\(", text, re.MULTILINE)
        assert len(names) > 15
        missing += [f"{header}: {name}" for name in names if f">{name}<" not in pages[page]]
    assert missing == []
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(index[index.index("{") : index.rindex("}") + 1])
    assert {"embed", "restart", "momentum", "licenc"} <= {*index["terms"], *index["titleterms"]}
    found = {f"{prefix}.{entry[4]}".lstrip(".") for prefix, entries in index["objects"].items() for entry in entries}
    names = {"pleiad::Session::create_array", "pleiad_session_start", "pleiad.torch.shard", "multiverso.barrier()"}
    assert names - found == set()
