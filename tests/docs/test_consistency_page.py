"""docs/consistency.md names a test for every guarantee, and these tests exist."""

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PAGE = (TESTS.parent / "docs" / "consistency.md").read_text()


def test_every_test_that_the_page_of_guarantees_names_exists():
    source = "".join(file.read_text() for file in TESTS.rglob("*.cc"))
    there = {f"{suite}.{case}" for suite, case in re.findall(r"^[A-Z_]+\((\w+),\s*(\w+)\b", source, re.MULTILINE)}
    named = set(re.findall(r"`([A-Z]\w+\.[A-Z]\w+)`", PAGE))
    assert len(named) > 50
    assert named - there == set()


def test_every_python_test_and_cell_that_the_page_of_guarantees_names_exists():
    files = ("test_failures.py", "test_processes.py", "test_hosts.py", "test_cluster.py", "test_conformance_mpi.py")
    files += ("test_random_kills.py", "test_stops.py", "test_capi.py")
    source = "".join(file.read_text() for name in files for file in TESTS.rglob(name))
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 10
    assert named - set(re.findall(r"^def (test_\w+)", source, re.MULTILINE)) == set()
    cells = set(re.findall(r"`\[([^]]+)\]`", PAGE))
    assert cells == set(re.findall(r'^    "([^"]+)": "\w+:\d+",$', source, re.MULTILINE))
