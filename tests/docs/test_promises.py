"""docs/promises.md lists promises with their tests. Every test that it names must exist."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "promises.md"
SECTIONS = {"Never silently wrong": "A", "Multiverso": "B", "SINGA": "C", "neon": "D"}
PROMISES = {"A": 9, "B": 7, "C": 11, "D": 9}  # promises are never removed; new ones raise the number


def rows():
    """Yields (section letter, id, promise, [test, ...]) for each row of the page."""
    letter = None
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            letter = SECTIONS[line[3:]]
        elif line.startswith("| ") and not line.startswith("| id "):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            assert len(cells) == 3, f"expected three cells: {line}"
            yield letter, cells[0], cells[1], re.findall(r"`([^`]+)`", cells[2])


def exists(test):
    """A test is `path/test_x.py::test_name` (optionally with [parameters]), `path/x_test.cc: Suite.Case` or a whole
    file.
    """
    path, _, name = test.partition("::") if "::" in test else test.partition(": ")
    file = ROOT / path
    if not file.is_file():
        return False
    if not name:
        return True
    text = file.read_text()
    if file.suffix == ".py":
        return re.search(rf"^\s*def {re.escape(name.partition('[')[0])}\(", text, re.MULTILINE) is not None
    suite, _, case = name.partition(".")
    return re.search(rf"TEST(_F|_P)?\({re.escape(suite)},\s*{re.escape(case)}\)", text) is not None or name in text


def test_every_promise_names_tests_that_exist():
    missing = [f"{id}: {test}" for _, id, _, tests in rows() for test in tests if not exists(test)]
    assert missing == []
    assert [id for _, id, _, tests in rows() if not tests] == []


def test_no_promise_is_missing_from_its_section():
    for letter, count in PROMISES.items():
        ids = {id for section, id, _, _ in rows() if section == letter}
        assert ids == {f"{letter}{n + 1}" for n in range(count)}


def test_every_acceptance_suite_is_on_the_page():
    page = PAGE.read_text()
    suites = (ROOT / "tests" / "acceptance").glob("test_*.py")
    assert [suite.name for suite in suites if f"tests/acceptance/{suite.name}" not in page] == []
