"""The Python blocks of the README and of small pages run as a reader would copy them, alone and on two ranks."""

import pytest
from conftest import ROOT
from run_page import PIECE, sections

PAGES = [
    "README.md",
    "docs/updaters.md",
    "docs/snapshots.md",
    "docs/data.md",
    "docs/spatial.md",
    "docs/frameworks.md",
    "docs/tutorial_pytorch.md",
    "docs/tutorial_nn.md",
    "docs/tutorial_multiverso.md",
    "docs/tutorial_singa.md",
    "docs/howto_embeddings.md",
    "docs/howto_failures.md",
    "docs/howto_large_images.md",
    "docs/questions.md",
]
# These pages have tests of their own.
OTHERS = ["docs/python.md", "docs/nn_python.md", "docs/singa.md", "docs/neon.md"]


@pytest.mark.parametrize("world", ["alone", 2])
@pytest.mark.parametrize("name", PAGES)
def test_the_blocks_of_a_page_run(python_job, name, world, tmp_path):
    page = ROOT / name
    blocks = {heading: body.count("```python") for heading, body in sections(page.read_text()).items()}
    blocks = {heading: count for heading, count in blocks.items() if count}
    words = [ROOT / "tests" / "bindings" / "python" / "run_page.py", page, *blocks, "--folder", tmp_path]
    done = python_job(world, *words, env={"PLEIAD_LOG_LEVEL": "error"}, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    found = [code for code, _ in PIECE.findall(page.read_text()) if code]
    assert sum(blocks.values()) == page.read_text().count("```python") == len(found)
    for heading, count in blocks.items():
        assert done.stdout.count(f"{heading}: {count} blocks ran") == (1 if world == "alone" else world), done.stdout


def test_the_blocks_of_every_page_are_run():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    with_code = {str(page.relative_to(ROOT)) for page in pages if "```python" in page.read_text()}
    assert with_code == {*PAGES, *OTHERS}
    hidden = [page.name for page in pages if "<!-- given" in page.read_text()]
    assert hidden == []  # a reader does not see it
