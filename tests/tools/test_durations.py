"""tools/durations.py and tools/cases.py: the durations of a test run, and no silent retries."""

import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

CTEST = """
 1/3 Test #1: Table.Adds ......................   Passed    0.10 sec
 2/3 Test #2: Table.Gets ......................***Failed    0.10 sec
 3/3 Test #3: Wire.Late .......................***Timeout   9.00 sec
     Test #2: Table.Gets ......................   Passed    0.10 sec
     Test #3: Wire.Late .......................***Failed    9.00 sec
     Test #4: Old.Write .......................***Not Run (Disabled)   0.00 sec

67% tests passed, 1 tests failed out of 3

The following tests FAILED:
\t  3 - Wire.Late (Failed)
"""
PYTEST = """RERUN tests/cli/test_launch.py::test_a
RERUN tests/cli/test_launch.py::test_b
FAILED tests/cli/test_launch.py::test_b - assert 1 == 2
"""


def durations(folder):
    return subprocess.run(
        [sys.executable, ROOT / "tools" / "durations.py"], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.fixture
def reports(tmp_path):
    folder = tmp_path / "build" / "reports"
    folder.mkdir(parents=True)
    (folder / "parts.tsv").write_text("build\t90.0\t0\n")
    (folder / "ctest.xml").write_text(
        '<testsuite><testcase name="Table.Adds" classname="Table.Adds" time="0.1"/>'
        '<testcase name="Wire.Late" classname="Wire.Late" time="9"/></testsuite>'
    )
    (folder / "ctest.log").write_text(CTEST)
    (folder / "pytest.log").write_text(PYTEST)
    return folder


def test_cases_that_passed_only_when_run_again_are_named(reports, tmp_path):
    result = durations(tmp_path)
    assert result.returncode == 0, result.stderr
    said = [line.split(": ")[1] for line in result.stdout.splitlines() if line.startswith("FAILED ONCE")]
    assert said == ["Table.Gets", "tests/cli/test_launch.py::test_a"]
    written = json.loads((tmp_path / "build" / "durations.json").read_text())
    assert written["parts"] == {"build": 90.0}
    assert [case["name"] for case in written["cases"]] == ["Wire.Late", "Table.Adds"]


def test_more_than_two_retried_cases_fail_the_run(reports, tmp_path):
    (reports / "asan_files.retried").write_text("Atomic.Commits\n")
    result = durations(tmp_path)
    assert result.returncode == 1
    assert "3 cases passed only when run again; at most 2 may" in result.stderr


def test_a_retried_case_of_a_program_is_recorded(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import pathlib, sys\n"
        "report = next((word.partition(':')[2] for word in sys.argv if word.startswith('--gtest_output')), None)\n"
        "if report is None: sys.exit(0)  # the second run\n"
        'pathlib.Path(report).write_text(\'<testsuites><testsuite><testcase classname="A" name="B"><failure/>\'\n'
        "                                '</testcase></testsuite></testsuites>')\n"
        "sys.exit(1)\n"
    )
    command = [sys.executable, ROOT / "tools" / "cases.py", "asan_toy", sys.executable, program]
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == 0
    assert (tmp_path / "build" / "reports" / "asan_toy.retried").read_text() == "A.B\n"
