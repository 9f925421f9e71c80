#!/usr/bin/env python3
"""Draws the pictures of examples/README.md: what runs on the processes of each example, and what they exchange.

tools/draw_examples.py
"""

import math
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "images" / "examples"
WIDTH, HEIGHT = 260, 116
INK, GREY, FAINT, BLUE, PALE, RUST = "#22272e", "#57606a", "#d9dee5", "#2563a8", "#dce8f5", "#b4532a"
# (picture, what is drawn, arguments, caption)
PICTURES = [
    ("first", "table", {"workers": 2}, "an add by rows"),
    ("fashion_softmax", "table", {"workers": 4}, "softmax regression, one matrix"),
    ("logistic_regression", "table", {"workers": 4}, "a row for each feature"),
    ("word_embedding", "rows", {"words": ["king", "queen", "apple"]}, "a row for each word"),
    ("lua_xor", "net", {"layers": [2, 4, 1]}, "xor in Lua, through a table"),
    ("lua_fashion", "table", {"workers": 4}, "ten rows of weights, in Lua"),
    ("torch_cnn", "ranks", {"workers": 4}, "a CNN, gradients averaged"),
    ("torch_recommender", "rows", {"words": ["user 7", "user 12", "item 3"]}, "rows of users and items"),
    ("jax_mlp", "ranks", {"workers": 4}, "an MLP in JAX, gradients averaged"),
    ("keras3_cnn", "ranks", {"workers": 4}, "a CNN in Keras 3, wrapped optimizer"),
    ("keras_mlp", "table", {"workers": 4}, "Keras through one array table"),
    ("lasagne_cnn", "table", {"workers": 4}, "Lasagne through one array table"),
    ("theano_logistic_regression", "table", {"workers": 4}, "Theano's shared variables"),
    ("plot_workers", "curves", {}, "loss against time, 1, 2, 4 workers"),
    ("nn_fashion_mlp", "net", {"layers": [5, 4, 3]}, "an MLP of pleiad.nn"),
    ("nn_fashion_cnn", "ranks", {"workers": 2}, "a CNN of pleiad.nn, batch divided"),
    ("nn_fashion_rbm", "net", {"layers": [5, 4, 3, 2, 3, 4, 5]}, "RBMs, unrolled"),
    ("nn_char_rnn", "text", {"text": "the cat s"}, "a GRU writes the next character"),
    ("fashion_cnn", "ranks", {"workers": 2}, "the same CNN in C++"),
    ("singa_mlp", "net", {"layers": [5, 4, 3]}, "a SINGA script"),
    ("singa_show", "curves", {}, "what SINGA's scripts learn"),
    ("neon_cnn", "tiles", {}, "each image on four ranks"),
    ("neon_gb", "net", {"layers": [5, 3, 5]}, "a sparse auto-encoder, in stages"),
    ("neon_mlp", "net", {"layers": [5, 4, 3]}, "neon 0.8's form"),
    ("cluster", "hosts", {}, "two hosts, four ranks each"),
]


def box(x, y, width, height, text="", fill=PALE, edge=BLUE, size=11):
    parts = [f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="5" fill="{fill}" stroke="{edge}"/>']
    if text:
        middle = y + height / 2 + size * 0.36
        parts.append(
            f'<text x="{x + width / 2}" y="{middle:.1f}" text-anchor="middle" font-size="{size}" fill="{INK}">{escape(text)}</text>'
        )
    return parts


def line(x1, y1, x2, y2, color=BLUE, width=1.4):
    return [f'<path d="M{x1},{y1} L{x2},{y2}" fill="none" stroke="{color}" stroke-width="{width}"/>']


def draw_table(workers):
    """Draws workers above the table that they share."""
    parts, step = [], 220 / workers
    for rank in range(workers):
        middle = 20 + step * (rank + 0.5)
        parts += line(middle, 36, middle, 56)
        parts += box(middle - 22, 12, 44, 24, f"rank {rank}")
    for row in range(3):
        for column in range(11):
            fill = RUST if (row, column) in ((0, 2), (1, 7), (2, 4)) else "white"
            parts += box(20 + column * 20, 56 + row * 10, 20, 10, fill=fill, edge=FAINT)
    return parts


def draw_ranks(workers):
    """Draws ranks with a net each, which average their gradients."""
    parts, step = [], 220 / workers
    parts += line(20 + step / 2, 76, 240 - step / 2, 76, RUST, 2)
    for rank in range(workers):
        middle = 20 + step * (rank + 0.5)
        parts += line(middle, 58, middle, 76, RUST)
        parts += box(middle - 20, 10, 40, 48, fill="#f6f8fa", edge=FAINT)
        for layer in range(3):
            parts += box(middle - 15, 16 + layer * 14, 30, 9)
    return parts


def draw_rows(words):
    """Draws ids and the rows that belong to them."""
    parts = []
    for index, word in enumerate(words):
        y = 10 + index * 26
        parts += box(14, y, 66, 20, word)
        parts += line(80, y + 10, 108, y + 10)
        for column in range(8):
            fill = [PALE, "#9dbde0", BLUE][(index * 5 + column * 3) % 3]
            parts += box(110 + column * 17, y + 2, 15, 16, fill=fill, edge="white")
    return parts


def draw_net(layers):
    """Draws the layers of a net, each with its units, from left to right."""
    parts, units = [], []
    step = 210 / (len(layers) - 1)
    for index, count in enumerate(layers):
        units.append([(25 + index * step, 48 + (unit - (count - 1) / 2) * 17) for unit in range(count)])
    for left, right in zip(units, units[1:], strict=False):
        for x1, y1 in left:
            for x2, y2 in right:
                parts += line(round(x1, 1), y1, round(x2, 1), y2, FAINT, 1)
    for x, y in (unit for layer in units for unit in layer):
        parts.append(f'<circle cx="{x:.1f}" cy="{y}" r="6" fill="{PALE}" stroke="{BLUE}"/>')
    return parts


def draw_text(text):
    """Draws characters, and the one that the net predicts."""
    parts = []
    for index, character in enumerate(text):
        last = index == len(text) - 1
        parts += box(
            16 + index * 26,
            34,
            24,
            28,
            character,
            fill="white" if not last else PALE,
            edge=RUST if last else FAINT,
            size=14,
        )
    return parts


def draw_tiles():
    """Draws an image that four ranks divide, with the halo of the first tile."""
    parts = box(84, 6, 92, 82, fill="white", edge=FAINT)
    for rank in range(4):
        x, y = 86 + (rank % 2) * 45, 8 + (rank // 2) * 40
        parts += box(x, y, 43, 38, f"rank {rank}", size=10)
    parts.append(
        f'<rect x="82" y="4" width="57" height="51" rx="5" fill="none" stroke="{RUST}" stroke-dasharray="4 3"/>'
    )
    return parts


def draw_curves():
    """Draws three curves that fall at different speeds."""
    parts = [f'<path d="M30,8 V84 H236" fill="none" stroke="{GREY}"/>']
    for speed, color in ((2.0, BLUE), (3.6, "#74a0cf"), (6.5, RUST)):
        points = [(30 + i * 10.2, 14 + 62 * (1 - math.exp(-speed * i / 20))) for i in range(21)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
    return parts


def draw_hosts():
    """Draws two hosts with four ranks each, and the network between them."""
    parts = line(116, 46, 144, 46, RUST, 2)
    for host in range(2):
        left = 16 + host * 128
        parts += box(left, 8, 100, 76, fill="#f6f8fa", edge=FAINT)
        parts.append(f'<text x="{left + 8}" y="24" font-size="10" fill="{GREY}">node{host + 1}</text>')
        for rank in range(4):
            parts += box(left + 8 + (rank % 2) * 44, 30 + (rank // 2) * 26, 40, 21, f"{host * 4 + rank}")
    return parts


DRAWINGS = {
    "table": draw_table,
    "ranks": draw_ranks,
    "rows": draw_rows,
    "net": draw_net,
    "text": draw_text,
    "tiles": draw_tiles,
    "curves": draw_curves,
    "hosts": draw_hosts,
}


def svg_of(kind, arguments, caption):
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
        ' font-family="Helvetica, Arial, sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="white"/>',
        *DRAWINGS[kind](**arguments),
        f'<text x="{WIDTH / 2:g}" y="{HEIGHT - 9}" text-anchor="middle" font-size="12" fill="{GREY}">{escape(caption)}</text>',
    ]
    return "\n".join([*parts, "</svg>", ""])


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, kind, arguments, caption in PICTURES:
        (FOLDER / f"{name}.svg").write_text(svg_of(kind, arguments, caption), encoding="utf-8")
    print(f"wrote {len(PICTURES)} pictures into {FOLDER.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
