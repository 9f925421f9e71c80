"""tools/plot_curve.py draws a curve, and an error names the invalid line."""

import math
import struct
import sys

import pytest
from conftest import ROOT

HEADER = "seconds,examples,accuracy,loss\n"


@pytest.fixture
def plot(run, tmp_path):
    """plot(text) returns the result of the tool for a CSV file with this text, and the picture's path."""

    def call(text, *more):
        source, picture = tmp_path / "curve.csv", tmp_path / "curve.png"
        if text is not None:
            source.write_text(text)
        return run(sys.executable, ROOT / "tools" / "plot_curve.py", source, picture, *more), picture

    return call


def curve(points):
    rows = (
        f"{i * 0.5},{i * 6000},{0.85 - 0.75 * math.exp(-i / 4):.4f},{0.4 + 1.9 * math.exp(-i / 4):.4f}"
        for i in range(points)
    )
    return HEADER + "\n".join(rows) + "\n"


@pytest.mark.parametrize("points", [1, 2, 40, 500])
def test_a_curve_becomes_a_picture(plot, points):
    result, picture = plot(curve(points), "--title", "Softmax regression")
    assert result.returncode == 0, result.stderr
    data = picture.read_bytes()
    assert data.startswith(b"\x89PNG\r\n")
    width, height = struct.unpack(">II", data[16:24])
    assert width >= 1000 and height >= 700


def test_columns_may_come_in_any_order_with_others_between(plot):
    result, picture = plot("loss,step,accuracy,seconds,examples\n2.3,0,0.1,0,0\nnan,9,0.5,1,100\n\n")
    assert result.returncode == 0, result.stderr
    assert picture.exists()


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("", "curve.csv:1: expected the columns seconds, examples, accuracy, loss; missing: seconds, examples"),
        (
            "seconds,examples,loss\n1,2,3\n",
            "curve.csv:1: expected the columns seconds, examples, accuracy, loss; missing: accuracy",
        ),
        (HEADER, "curve.csv:2: expected at least one line of numbers"),
        (HEADER + "0,0,0.1,2.3\n1,2,high,2.0\n", "curve.csv:3: accuracy: expected a number; received 'high'"),
        (HEADER + "0,0,0.1,2.3\n1,2,82.5,2.0\n", "curve.csv:3: accuracy: expected 0 to 1; received 82.5"),
        (HEADER + "0,0,0.1,2.3\n\n1,2,0.5\n", "curve.csv:4: expected 4 values; received 3"),
        (HEADER + "1,0,0.1,2.3\n0.5,2,0.5,2\n", "curve.csv:3: seconds: expected at least 1, as before; received 0.5"),
        (HEADER + "-1,0,0.1,2.3\n", "curve.csv:2: seconds: expected 0 or more; received -1"),
        (None, "curve.csv: No such file or directory"),
    ],
)
def test_a_mistake_is_named_with_its_line(plot, text, complaint):
    result, picture = plot(text)
    assert result.returncode == 1
    assert complaint in result.stderr
    assert "Traceback" not in result.stderr
    assert not picture.exists()
