"""examples/README.md names every example and has a picture of each."""

import re
import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import draw_examples  # noqa: E402

EXAMPLES = ROOT / "examples"
PAGE = (EXAMPLES / "README.md").read_text()
# The page names programs of several files by their folder; helpers are no examples.
PROGRAMS = [
    path.relative_to(EXAMPLES)
    for path in sorted(EXAMPLES.rglob("*"))
    if path.suffix in {".py", ".cc", ".c", ".lua", ".yaml", ".sbatch"} and path.parent.name != "common"
]


@pytest.mark.parametrize("path", PROGRAMS, ids=str)
def test_every_example_is_named(path):
    folder = path.parent.name
    assert path.name in PAGE or folder in {"logistic_regression", "word_embedding"} and f"/{folder} " in PAGE


def test_every_row_has_one_picture_which_is_drawn_by_the_tool():
    rows = [row for row in PAGE.splitlines() if row.startswith("| ") and "| example |" not in row]
    shown = [re.findall(r"!\[([^\]]+)\]\(\.\./docs/images/examples/(\w+)\.svg\)", row) for row in rows]
    assert all(len(found) == 1 for found in shown)
    drawn = {name: caption for name, _, _, caption in draw_examples.PICTURES}
    assert {name: alt for [(alt, name)] in shown} == drawn


@pytest.mark.parametrize("picture", draw_examples.PICTURES, ids=lambda picture: picture[0])
def test_a_picture_is_as_the_tool_draws_it(picture):
    name, *how = picture
    assert (draw_examples.FOLDER / f"{name}.svg").read_text() == draw_examples.svg_of(*how), (
        "run: tools/draw_examples.py"
    )
