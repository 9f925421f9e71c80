"""docs/frameworks.md lists patterns with their tests. Every test that it names exists, and every case is listed."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "frameworks.md").read_text()
SUITES = [
    "torch_patterns_cases.py",
    "torch_loops_cases.py",
    "torch_checkpoint_cases.py",
    "torch_tensors_cases.py",
    "libraries_cases.py",
    "lightning_cases.py",
    "process_group_cases.py",
    "jax_compiled_cases.py",
    "keras3_patterns_cases.py",
    "objects_cases.py",
]


def named_on_the_page(suite):
    return set(re.findall(rf"`{re.escape(suite)}::(test_\w+)`", PAGE))


@pytest.mark.parametrize("suite", SUITES)
def test_the_page_lists_exactly_the_cases_of_the_suite(suite):
    text = (ROOT / "tests" / "bindings" / "python" / suite).read_text()
    assert named_on_the_page(suite) == set(re.findall(r"^def (test_\w+)", text, re.MULTILINE))


def test_every_pattern_names_a_test():
    patterns = PAGE[: PAGE.index("## Compared with others")]
    rows = [line for line in patterns.splitlines() if line.startswith("| ") and not line.startswith("| pattern ")]
    assert len(rows) > 25
    assert [row for row in rows if not re.search(r"`\w+\.py::test_\w+` \|$", row)] == []
