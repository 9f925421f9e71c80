"""docs/consistency.md names a test for every guarantee; the tests are there."""

import re
import subprocess
from pathlib import Path

TESTS = Path(__file__).resolve().parent
PAGE = (TESTS.parent / "docs" / "consistency.md").read_text()


def test_every_test_that_the_page_of_guarantees_names_exists(build_dir):
    there = set()
    for program in ("conformance", "interleavings", "unit", "wire"):
        command = [build_dir / "bin" / program, "--gtest_list_tests"]
        listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout
        for line in listed.splitlines():
            if not line.startswith(" "):
                suite = line.split("#")[0].strip()
            else:
                # Suites of a world (Inproc4on2_Litmus.) and of a parameter (EachTable/DroppedCalls.) count by their own name.
                name = re.sub(r"^((Inproc|Mpi)\d+(on\d+)?_|\w+/)", "", suite)
                there.add(name + line.split("#")[0].strip().split("/")[0])
    named = set(re.findall(r"`([A-Z]\w+\.[A-Z]\w+)`", PAGE))
    assert len(named) > 50
    assert named - there == set()


def test_every_python_test_and_cell_that_the_page_of_guarantees_names_exists():
    files = ("test_failures.py", "test_processes.py", "test_hosts.py", "test_cluster.py", "test_conformance_mpi.py")
    files += ("test_random_kills.py", "test_stops.py", "test_capi.py")
    source = "".join((TESTS / name).read_text() for name in files)
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 10
    assert named - set(re.findall(r"^def (test_\w+)", source, re.MULTILINE)) == set()
    cells = set(re.findall(r"`\[([^]]+)\]`", PAGE))
    assert cells == set(re.findall(r'^    "([^"]+)": "\w+:\d+",$', source, re.MULTILINE))
