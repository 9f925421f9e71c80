"""The plots of docs/benchmarks.md are drawn from bench/results, which has the figures of the page."""

import json
import re
import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import draw_benches  # noqa: E402

RESULTS = sorted((ROOT / "bench" / "results").glob("*.jsonl"))
SECTIONS = {"tables": "Tables", "nets": "Training nets", "torch": "PyTorch scripts on two processes"}


def section(title):
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    return re.split(r"^## ", page.partition(f"\n## {title}\n")[2], flags=re.MULTILINE)[0]


def test_every_file_of_results_has_a_section_with_its_plot():
    assert {path.stem for path in RESULTS} == set(SECTIONS)
    for name, title in SECTIONS.items():
        assert f"](images/bench_{name}.svg)" in section(title)


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_the_plot_is_drawn_from_the_results(path):
    drawn = (ROOT / "docs" / "images" / f"bench_{path.stem}.svg").read_text()
    assert drawn == draw_benches.svg_of(draw_benches.read_lines(path)), "run: tools/draw_benches.py"


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_the_results_are_those_of_the_page_and_name_the_machine(path):
    text = section(SECTIONS[path.stem])
    for line in draw_benches.read_lines(path):
        assert re.search(rf"(?<![\d.]){line['ratio']:.2f}(?!\d)|(?<![\d.]){line['ratio']:g}(?![\d.])", text), line
        assert line["machine"]


def test_lines_of_a_benchmark_become_a_plot(run, tmp_path):
    lines = [
        {"name": "array_async", "procs": 1, "size": 1000, "median_us": 0.2, "ratio": 0.5},
        {"name": "array_async", "procs": 2, "size": 1000, "median_us": 0.8, "ratio": 4},
        {"name": "notes", "seconds": 3},
    ]
    source, plot = tmp_path / "lines.jsonl", tmp_path / "plot.svg"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert run(sys.executable, ROOT / "tools" / "draw_benches.py", source, plot).returncode == 0
    drawn = plot.read_text()
    assert drawn.count("array, add + get, asynchronous, 1,000 floats") == 1
    assert ">0.50<" in drawn and ">4.00<" in drawn and ">2 processes<" in drawn


@pytest.mark.parametrize("text", ["not JSON\n", '{"name": "array"}\n', ""])
def test_a_file_without_ratios_is_refused(run, tmp_path, text):
    source = tmp_path / "lines.jsonl"
    source.write_text(text)
    done = run(sys.executable, ROOT / "tools" / "draw_benches.py", source, tmp_path / "plot.svg")
    assert done.returncode == 1 and "lines.jsonl" in done.stderr
    assert not (tmp_path / "plot.svg").exists()
