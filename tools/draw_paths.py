#!/usr/bin/env python3
"""Draws the pictures of docs/architecture.md from its lists of functions: tools/draw_paths.py

A row is a folder and a column is a step, so that a picture shows how far down into the folders a call goes.
"""

from pathlib import Path
from xml.sax.saxutils import escape

from data_paths import data_paths, picture_of

ROOT = Path(__file__).resolve().parent.parent
LABELS = 170  # width of the column with the folders' names
ROW = 46
BOX = 26
LETTER = 7.0  # width of a letter
GAP = 14
COLORS = {"lane": "#eef2f9", "line": "#4060a0", "box": "#ffffff", "text": "#202428"}


def rows_of(steps):
    """Returns the folders from the top row to the bottom row, in the order in which the path reaches them."""
    return list(dict.fromkeys(str(Path(step.file).parent) for step in steps))


def svg_of(steps):
    """Returns the picture of a path. Each box begins left of the end of the one before, one row apart from it or more."""
    rows = rows_of(steps)
    texts = [f"{number}. {step.function}" for number, step in enumerate(steps, 1)]
    widths = [len(text) * LETTER + 18 for text in texts]
    boxes, left = [], LABELS
    for index, (step, width) in enumerate(zip(steps, widths, strict=True)):
        row = rows.index(str(Path(step.file).parent))
        if index > 0:
            same_row = boxes[-1][1] == row
            before = boxes[-1][0]
            left = before + widths[index - 1] + GAP if same_row else before + widths[index - 1] / 2 + GAP
            # A box must not cover an earlier one of its row.
            left = max([left, *(x + w + GAP for x, r, w in boxes if r == row)])
        boxes.append((left, row, width))
    total = max(x + w for x, _, w in boxes) + GAP
    height = len(rows) * ROW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total:.0f} {height}" width="{total:.0f}" height="{height}"'
        ' font-family="Helvetica, Arial, sans-serif" font-size="13">',
        f'<rect width="{total:.0f}" height="{height}" fill="white"/>',
    ]
    for row, folder in enumerate(rows):
        parts.append(
            f'<rect y="{row * ROW + 3}" width="{total:.0f}" height="{ROW - 6}" rx="6" fill="{COLORS["lane"]}"/>'
        )
        parts.append(f'<text x="10" y="{row * ROW + ROW / 2 + 5:.0f}" fill="{COLORS["line"]}">{escape(folder)}</text>')
    for (x, row, width), (next_x, next_row, _) in zip(boxes, boxes[1:], strict=False):
        y, to_y = row * ROW + ROW / 2, next_row * ROW + ROW / 2
        if row == next_row:
            path = f"M{x + width:.0f},{y:.0f} H{next_x:.0f}"
        else:  # from the lower or upper edge of a box, and into the left side of the next one
            edge = y + (BOX / 2 if next_row > row else -BOX / 2)
            start = min(x + width / 2, next_x - GAP / 2)
            path = f"M{start:.0f},{edge:.0f} V{to_y:.0f} H{next_x:.0f}"
        parts.append(f'<path d="{path}" fill="none" stroke="{COLORS["line"]}" stroke-width="1.4"/>')
        tip = f"M{next_x:.0f},{to_y:.0f} l-6,-3.5 v7 z"
        parts.append(f'<path d="{tip}" fill="{COLORS["line"]}"/>')
    for (x, row, width), text in zip(boxes, texts, strict=True):
        y = row * ROW + (ROW - BOX) / 2
        parts.append(
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{BOX}" rx="6" fill="{COLORS["box"]}"'
            f' stroke="{COLORS["line"]}"/>'
        )
        parts.append(
            f'<text x="{x + width / 2:.0f}" y="{y + BOX / 2 + 4.5:.0f}" text-anchor="middle" fill="{COLORS["text"]}">'
            f"{escape(text)}</text>"
        )
    return "\n".join([*parts, "</svg>", ""])


def main():
    for title, steps in data_paths(ROOT).items():
        (ROOT / picture_of(title)).write_text(svg_of(steps))
        print(f"wrote {picture_of(title)}")


if __name__ == "__main__":
    main()
