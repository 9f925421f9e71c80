"""Progress bars on terminals, also through the pipes of pleiad launch."""

import os
import pty
import subprocess
import sys

BAR = """
import numpy, pleiad
from pleiad import nn
pleiad.init(log_level="off")
net = nn.Sequential([nn.Dense(2)], input=(3,), loss=nn.SoftmaxLoss())
class Slow(nn.Callback):
    def on_step(self, step, metrics):
        pass
nn.Trainer(net, batch=4).fit(numpy.ones((40, 3)), numpy.zeros(40, int), epochs=2, callbacks=[Slow()])
"""


def on_terminal(command, env):
    """Runs a command whose standard error is a terminal. Returns what it has written there."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs, env=env
    )
    os.close(theirs)
    text = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the last process has closed the terminal
            break
        if not piece:
            break
        text += piece
    os.close(ours)
    assert process.wait(120) == 0, text.decode(errors="replace")
    return text.decode(errors="replace")


def test_bars_are_shown_on_the_terminal_of_the_launcher(pleiad, python_env, tmp_path):
    script = tmp_path / "bar.py"
    script.write_text(BAR)
    env = {name: value for name, value in os.environ.items() if not name.startswith("TQDM_")}  # may disable bars
    env |= {**python_env, "PYTHONIOENCODING": "utf-8"}
    for words in ([], [pleiad, "launch", "-n", "2"], [pleiad, "launch", "-n", "2", "--tag-output"]):
        text = on_terminal([*words, sys.executable, script], env)
        shown = [piece for piece in text.replace("\n", "\r").split("\r") if "epoch 1/2" in piece and "steps" in piece]
        assert shown and ("--tag-output" in words or any("10/10" in piece for piece in shown)), text
        # The launcher shows the beginning of a line, and writes over it when the line is complete.
        lines = [line.rstrip("\r").split("\r")[-1] for line in text.split("\n")]
        assert sum("train: loss" in line for line in lines) == 2, text
        if "--tag-output" in words:
            assert all("[1,0]<stderr>:" in piece for piece in shown), text
    done = subprocess.run(
        list(map(str, [pleiad, "launch", "-n", "2", "--tag-output", sys.executable, script])),
        capture_output=True, text=True, timeout=120, env=env,
    )  # fmt: skip
    assert "\r" not in done.stderr and done.stderr.count("train: loss") == 2


def test_a_bar_of_its_own_if_tqdm_is_missing(python_job):
    code = "import sys; sys.modules['tqdm'] = None\n" + BAR.replace("callbacks=[Slow()]", "progress='bar'")
    done = python_job("alone", "-c", code)
    assert done.returncode == 0, done.stderr
    assert "epoch 1/2 100%|" in done.stderr and "steps/s" in done.stderr, done.stderr
