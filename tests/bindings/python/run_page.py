"""Runs the blocks of code under some headings of a page, as a reader would who copies them:
run_page.py PAGE HEADING... [--sync | --both] [--before MODULE] [--folder FOLDER].

Each block runs in an empty namespace and an empty folder, and its session is shut down at the end. A block whose first
line is
CONTINUES, which the reader sees, keeps the names of the block above it. A hidden comment `<!-- then ... -->` holds
assertions about
the block above: they see its names and add none.

With --sync, multiverso.init creates synchronous tables by default. With --both, the blocks run without that and then
with it.
--before imports a module first, which may make training shorter. --folder is the folder in which the blocks run, for
ranks that need
a common one.
"""

import argparse
import contextlib
import importlib
import re
import sys
import tempfile
from pathlib import Path

CONTINUES = "# Continues the block above."
PIECE = re.compile(r"^```python\n(.*?)^```$|^<!-- then\n(.*?)^-->$", re.MULTILINE | re.DOTALL)


def sections(text):
    """Returns {heading: text under it} for headings of the second level, without the content of code fences."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def shut_down():
    import pleiad

    if pleiad.sessions._current is not None:
        pleiad.session().shutdown()


def run(page, heading, folder=None):
    """Runs the blocks in `folder`, or in an empty folder of this process. Returns their number."""
    text = sections(Path(page).read_text())[heading]
    names = {}
    blocks = 0
    with tempfile.TemporaryDirectory() as own, contextlib.chdir(folder or own):
        for match in PIECE.finditer(text):
            block, assertions = match.groups()
            code = "\n" * text[: match.start()].count("\n") + (block or assertions)
            where = f"{page}, {heading}"
            if block is None:
                exec(compile(code, where, "exec"), dict(names))
                continue
            blocks += 1
            if not block.startswith(CONTINUES):
                shut_down()
                names = {"__name__": "__main__"}
            exec(compile(code, where, "exec"), names)
        shut_down()
    return blocks


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("page", type=Path)
    parser.add_argument("headings", nargs="+")
    parser.add_argument("--sync", action="store_true")
    parser.add_argument("--both", action="store_true")
    parser.add_argument("--before", action="append", default=[])
    parser.add_argument("--folder")
    options = parser.parse_args()
    page = options.page.resolve()
    sys.argv[:] = [str(page)]  # as a script without arguments
    for module in options.before:
        importlib.import_module(module)
    for sync in (False, True) if options.both else (options.sync,):
        if sync:
            import multiverso

            plain = multiverso.init
            multiverso.init = lambda sync=True, **more: plain(sync, **more)  # noqa: B023
        for heading in options.headings:
            print(f"{heading}: {run(page, heading, options.folder)} blocks ran", flush=True)


if __name__ == "__main__":
    main()
