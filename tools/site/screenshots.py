#!/usr/bin/env python3
"""Takes pictures of pages of the site with Debian's chromium: tools/site/screenshots.py build/docs build/screenshots [PAGE...]

Each page is taken on a wide screen and on a narrow one.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

PAGES = ["index", "tutorial_pytorch", "questions", "consistency", "reference/cpp_tables"]
WIDTHS = {"wide": (1280, 1600), "narrow": (390, 1600)}


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__.strip())
    site, pictures = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    pictures.mkdir(parents=True, exist_ok=True)
    for page in sys.argv[3:] or PAGES:
        for name, (width, height) in WIDTHS.items():
            picture = pictures / f"{page.replace('/', '_')}_{name}.png"
            with tempfile.TemporaryDirectory() as profile:
                take(site / f"{page}.html", picture, width, height, Path(profile))
            print(f"wrote {picture}")


def take(page, picture, width, height, folder):
    """Chromium's window has a minimum width, so the page is shown in a frame that may be narrower."""
    frame = folder / "frame.html"
    frame.write_text(
        f'<body style="margin:0"><iframe src="{page.as_uri()}" style="border:0;width:{width}px;height:{height}px"></iframe>'
    )
    command = [
        "chromium",
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--virtual-time-budget=4000",
    ]
    command += [
        f"--user-data-dir={folder}/profile",
        f"--window-size={max(width, 500)},{height}",
        f"--screenshot={picture}",
    ]
    done = subprocess.run([*command, frame.as_uri()], capture_output=True, text=True, timeout=120)
    if done.returncode or not picture.is_file():
        raise SystemExit(f"chromium took no picture of {page}:\n{done.stderr}")


if __name__ == "__main__":
    main()
