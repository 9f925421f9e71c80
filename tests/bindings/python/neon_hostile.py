"""YAML that would exhaust memory or time, or send control characters to a terminal: each gives one line that names the
file.
"""

import neon
from pleiad.errors import FileError

MERGES = "\n".join(
    ["a0: &a0 {k0: 1, k1: 1, k2: 1, k3: 1, k4: 1, k5: 1, k6: 1, k7: 1, k8: 1, k9: 1}"]
    + [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}" for i in range(1, 12)]
)
ALIASES = "\n".join(["b0: &b0 [x]"] + [f"b{i}: &b{i} [{', '.join([f'*b{i - 1}'] * 10)}]" for i in range(1, 12)])
CASES = {
    "merges": (MERGES, "more than 10,000 fields"),
    "aliases": (ALIASES + "\nc: !obj:nothing {x: *b11}", "nothing"),
    "size": ("# " + "x" * 1_000_000, "at most 1,000,000"),
    "depth": ("{a: " * 2000 + "1" + "}" * 2000, "nested more than 50 levels"),
    "long number": ("!obj:neon.experiments.fit.FitExperiment {model: " + "9" * 5000 + "}", "digits"),
    "no date": ("a: 2001-99-99", "month"),
    "control character": ("a: \x1b[2J", "0x1b"),
    "delete": ("a: \x7f", "7f"),
    "escaped in a key": ('{"\\e[2J": 1, "\\e[2J": 2}', "duplicate key"),
    "escaped in a name": ('!obj:neon.experiments.fit.FitExperiment {"\\e[2J": 1}', "\\x1b"),
}

for name, (text, words) in CASES.items():
    try:
        neon.loads(text, "file.yaml")
    except FileError as problem:
        message = str(problem)
        assert message.startswith("file.yaml"), (name, message)
        assert words in message, (name, message)
        assert message.isprintable() and len(message) < 4000, (name, message)
        print(name, "is refused")
    else:
        raise AssertionError(f"{name} is taken")
