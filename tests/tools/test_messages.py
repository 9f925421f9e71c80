"""tests/messages/ agrees with the sources, and tools/messages.py collects what a user can read and nothing else."""

import subprocess
import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import messages  # noqa: E402


def test_the_golden_files_hold_the_messages_of_the_sources():
    result = subprocess.run(
        [sys.executable, ROOT / "tools" / "messages.py"], capture_output=True, text=True, timeout=600
    )
    assert result.returncode == 0, result.stdout + result.stderr


CASES = {
    "errors.cc": (
        'throw E(fmt::format("row {} is "\n  "missing; pass {}", a, b));  // "not a message"\n#include "a b.h"\n',
        ["row {} is missing; pass {}"],
    ),
    "quotes.cc": ('auto c = \'"\'; fail("no \\"net\\" is given");', ['no "net" is given']),
    "sum.cc": ('throw E(where + ": expected a list" + tail);', ["... : expected a list ..."]),
    "names.cc": ('set("name"); set("float32"); set("a-b/c.d"); set("%d %d");', []),
    "code.cc": ('run("def f(x):\\n  return x\\n");', []),
    "errors.py": (
        '"""Text of the module."""\nname: "dict[str, int]" = f(f"row {i + 1} is missing")\nraise E("expected " + kind(x))\n',
        ["row {i + 1} is missing"],
    ),
    "errors.lua": (
        "fail('no table ' .. name) -- 'no message here'\nfail([[two words]])\n",
        ["no table  ...", "two words"],
    ),
    "errors.sh": ('# say "no"\nsay "installing $1 now"\n', ["installing $1 now"]),
}


@pytest.mark.parametrize("name", CASES)
def test_texts_are_collected_without_comments_names_and_code(name, tmp_path):
    text, expected = CASES[name]
    (tmp_path / name).write_text(text)
    assert messages.texts_of(tmp_path / name) == expected


def test_a_changed_message_is_shown_until_the_golden_files_are_rewritten(tmp_path):
    source = tmp_path / "src" / "table" / "get.cc"
    source.parent.mkdir(parents=True)
    source.write_text('fail("row is missing");')
    messages.write(tmp_path)
    assert messages.differences(tmp_path) == []
    source.write_text('fail("row {} is missing");')
    changed = messages.differences(tmp_path)
    assert "-    row is missing" in changed and "+    row {} is missing" in changed
    messages.write(tmp_path)
    assert messages.differences(tmp_path) == []
    source.unlink()
    messages.write(tmp_path)
    assert list((tmp_path / "tests" / "messages").iterdir()) == []
