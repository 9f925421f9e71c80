"""The blocks of Python in README.md run as a reader would copy them, alone and on two ranks."""

import pytest
from conftest import ROOT
from run_page import PIECE, sections

PAGE = ROOT / "README.md"
HEADINGS = [heading for heading, body in sections(PAGE.read_text()).items() if PIECE.search(body)]


@pytest.mark.parametrize("world", ["alone", 2])
def test_the_blocks_of_the_readme_run(python_job, world, tmp_path):
    assert HEADINGS == ["PyTorch", "pleiad.nn", "Multiverso", "SINGA"]
    program = ROOT / "tests" / "python" / "run_page.py"
    done = python_job(
        world, program, PAGE, *HEADINGS, "--folder", tmp_path, env={"PLEIAD_LOG_LEVEL": "error"}, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for heading in HEADINGS:
        assert done.stdout.count(f"{heading}: 1 blocks ran") == (1 if world == "alone" else world), done.stdout
