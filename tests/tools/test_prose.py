"""tools/prose.py finds private words and sentences without a subject, and nothing else; the tree is checked by `make lint`."""

import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import prose  # noqa: E402

CASES = {
    "a word of the house list": ("a.cc", "// The table is made anew.\n", ['a.cc:1: "anew": again']),
    "a word of the glossary": ("a.py", "x = 1\n# Meets a stranger.\n", ['a.py:2: "stranger": foreign process']),
    "a beginning without a subject": ("a.h", "/// Fast. Of one that waits.\n", ['a.h:1: "Of": begin with the subject']),
    "the second line of a comment": ("a.cc", "int x;\n// It is\n// anew.\n", ['a.cc:3: "anew": again']),
    "a docstring": ("a.py", 'def f():\n    """What f does."""\n', ['a.py:2: "What": begin with the subject']),
    "a page": ("a.md", "# What it is\n\nMade\nanew.\n", ['a.md:4: "anew": again']),
    "code on a page": ("a.md", "    x = anew\n\n`anew`\n\n```\nanew\n```\n", []),
    "code in a source": ("a.cc", 'auto s = "anew"; // fine\nint anew = 0;\n', []),
    "a question": ("a.md", "What is a table?\n", []),
    "a sentence with its subject": ("a.lua", "-- Returns the table of which it is a part.\n", []),
}


@pytest.mark.parametrize("name", CASES)
def test_private_words_and_missing_subjects_are_found(name, tmp_path, monkeypatch):
    file, text, expected = CASES[name]
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    (tmp_path / file).write_text(text)
    assert list(prose.complaints(tmp_path / file, prose.house_rules())) == expected


def test_every_rule_has_advice():
    rules = prose.house_rules()
    assert len(rules) > 20 and all(advice.strip() for _, advice, _ in rules)
