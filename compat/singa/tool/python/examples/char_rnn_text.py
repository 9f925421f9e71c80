"""Writes a text of a small invented grammar and its vocabulary, for examples/char-rnn/job.conf and
examples/rnnlm/job.conf.
"""

import random
from pathlib import Path

FOLDER = Path("examples/char-rnn")


def sentence(draw: random.Random) -> str:
    who = draw.choice(["a star", "the sea", "one ship", "my light"])
    does = draw.choice(["rises", "waits", "turns", "sings"])
    where = draw.choice(["at dawn", "in the north", "over land", "below"])
    return f"{who} {does} {where}.\n"


def main(sentences: int = 20_000) -> None:
    draw = random.Random(1)
    text = "".join(sentence(draw) for _ in range(sentences))
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "input.txt").write_text(text)
    (FOLDER / "vocab.txt").write_text("".join(sorted(set(text))))


if __name__ == "__main__":
    main()
