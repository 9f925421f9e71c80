"""Runs the blocks of code under some headings of a page: run_page.py PAGE HEADING... [--sync | --both].

The blocks of a heading share their names. A comment `<!-- given ... -->` has code that a reader would have before a block, `<!-- then ... -->` what
must hold after it. With --sync, multiverso.init makes synchronous tables unless it is told otherwise; with --both, the blocks run
without that and then with it.
"""

import argparse
import re
from pathlib import Path

PIECE = re.compile(r"^```python\n(.*?)^```$|^<!-- (?:given|then)\n(.*?)^-->$", re.MULTILINE | re.DOTALL)


def sections(text):
    """{heading: text under it} of the second level, without what stands in fences."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def run(page, heading):
    """Runs the blocks; returns how many there were."""
    import pleiad

    text = sections(Path(page).read_text())[heading]
    names = {"__name__": "__main__"}
    blocks = 0
    for match in PIECE.finditer(text):
        blocks += match.group(1) is not None
        code = match.group(1) or match.group(2)
        exec(compile("\n" * text[: match.start()].count("\n") + code, f"{page}, {heading}", "exec"), names)
    if pleiad.sessions._current is not None:
        pleiad.session().shutdown()
    return blocks


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("page")
    parser.add_argument("headings", nargs="+")
    parser.add_argument("--sync", action="store_true")
    parser.add_argument("--both", action="store_true")
    options = parser.parse_args()
    for sync in (False, True) if options.both else (options.sync,):
        if sync:
            import multiverso

            plain = multiverso.init
            multiverso.init = lambda sync=True, **more: plain(sync, **more)  # noqa: B023
        for heading in options.headings:
            print(f"{heading}: {run(options.page, heading)} blocks ran", flush=True)


if __name__ == "__main__":
    main()
