"""Every block of code of docs/python.md that needs only NumPy, in every world, with asynchronous and synchronous
tables.
"""

import pytest
from conftest import ROOT
from run_page import PIECE, sections

PAGE = ROOT / "docs" / "python.md"
PLAIN = [
    "A script with multiverso",
    "Synchronous and asynchronous servers",
    "First values",
    "The master worker",
    "Tables",
    "One GPU a worker",
    "The package pleiad",
]
# Sections that need more than NumPy have tests of their own.
FRAMEWORKS = ["Theano", "Lasagne", "Keras", "PyTorch", "JAX", "Keras 3"]


@pytest.mark.parametrize("world", ["alone", 2, 4])
def test_the_blocks_run(python_job, world):
    program = ROOT / "tests" / "bindings" / "python" / "run_page.py"
    done = python_job(world, program, PAGE, *PLAIN, "--both", env={"PLEIAD_LOG_LEVEL": "error"})
    assert done.returncode == 0, done.stdout + done.stderr
    for heading in PLAIN:
        blocks = sections(PAGE.read_text())[heading].count("```python")
        assert blocks > 0
        assert done.stdout.count(f"{heading}: {blocks} blocks ran") == 2 * (1 if world == "alone" else world)


def test_every_section_with_code_is_run():
    text = PAGE.read_text()
    with_code = [heading for heading, body in sections(text).items() if PIECE.search(body)]
    assert set(with_code) - set(FRAMEWORKS) == set(PLAIN)
    assert text.count("```python") == len([match for match in PIECE.finditer(text) if match.group(1)])
