"""The page, the man page and the completions that tools/cli_pages.py makes of the commands' help, and `pleiad help`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["docs/cli.md", "cli/pages/pleiad.1", "cli/pages/pleiad.bash", "cli/pages/_pleiad"]


@pytest.fixture(scope="module")
def made(build_dir, python_env, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    command = [sys.executable, ROOT / "tools" / "cli_pages.py", "--build", build_dir, "--root", folder]
    subprocess.run(command, check=True, timeout=600)
    return folder


@pytest.mark.parametrize("page", PAGES)
def test_the_page_is_made_of_the_help(made, page):
    assert (made / page).read_text() == (ROOT / page).read_text(), "run: make cli-pages"


def test_every_option_of_the_help_is_on_the_page(run, pleiad):
    page = (ROOT / "docs" / "cli.md").read_text()
    for option in ("--stop-timeout", "--restart", "--no-label", "--deterministic", "`-n`, `--ranks`"):
        assert option in page
    assert "| `--bind` | `core\\|none` | `none` | Bind each rank to a core, or to none |" in page


@pytest.mark.parametrize("command", ["launch", "explain", "run", "inspect", "info", "completion"])
def test_help_prints_what_the_option_prints(run, pleiad, command):
    helped = run(pleiad, "help", command)
    assert helped.returncode == 0 and f"Usage: pleiad {command}" in helped.stdout
    assert helped.stdout == run(pleiad, command, "--help").stdout


def test_help_alone_lists_the_commands_and_refuses_an_unknown_one(run, pleiad):
    assert run(pleiad, "help").stdout == run(pleiad, "--help").stdout
    wrong = run(pleiad, "help", "lunch")
    assert wrong.returncode == 2 and 'did you mean "launch"?' in wrong.stderr


@pytest.mark.parametrize("shell, page", [("bash", "pleiad.bash"), ("zsh", "_pleiad")])
def test_the_command_prints_its_completion(run, pleiad, shell, page):
    assert run(pleiad, "completion", shell).stdout == (ROOT / "cli" / "pages" / page).read_text()


def complete_in_bash(*words):
    """The words that bash offers for the last one."""
    line = " ".join(f"'{word}'" for word in words)
    script = f"""
      source {ROOT}/cli/pages/pleiad.bash
      COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}
      _pleiad; printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.split()


def test_bash_completes_commands_options_and_values():
    assert complete_in_bash("pleiad", "lau") == ["launch"]
    assert sorted(complete_in_bash("pleiad", "ex")) == ["explain", "export"]
    assert complete_in_bash("pleiad", "help", "inf") == ["info"]
    assert complete_in_bash("pleiad", "launch", "--st") == ["--stop-timeout"]
    assert sorted(complete_in_bash("pleiad", "launch", "--bind", "")) == ["core", "none"]
    assert complete_in_bash("pleiad", "completion", "z") == ["zsh"]
    assert complete_in_bash("pleiad", "inspect", "--v") == ["--verify"]
    assert complete_in_bash("pleiad", "inspect", "fold") == []  # bash itself offers files
    assert "bash" in complete_in_bash("pleiad", "launch", "-n", "4", "bas")
    assert complete_in_bash("pleiad", "launch", "-n", "4", "python3", "--v") == []  # options of another command


def complete_in_zsh(*words):
    """Returns the completions that the function passes to zsh's own functions."""
    script = f"""
      _arguments() {{ print -rl -- "$@" }}
      _describe() {{ print -rl -- $commands }}
      compdef() {{ :; }}
      source {ROOT}/cli/pages/_pleiad
      words=({" ".join(f"'{word}'" for word in words)}); CURRENT={len(words)}
      _pleiad
    """
    done = subprocess.run(["zsh", "-f", "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.splitlines()


def test_zsh_completes_commands_options_and_values():
    commands = complete_in_zsh("pleiad", "")
    assert "launch:Run a command in several processes" in commands and len(commands) == 12
    assert complete_in_zsh("pleiad", "help", "") == commands
    options = complete_in_zsh("pleiad", "launch", "-")
    assert "(-n --ranks)--ranks[Number of processes]:int:" in options
    assert "--bind[Bind each rank to a core, or to none]:value:(core none)" in options
    assert options[-1] == "*::command:_normal"


def test_the_man_page_is_formatted_without_a_warning():
    command = ["groff", "-man", "-Tutf8", "-ww", "-P-c", ROOT / "cli" / "pages" / "pleiad.1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, "LC_ALL": "C.UTF-8"})
    assert done.returncode == 0 and done.stderr == "", done.stderr
    text = re.sub(".\b", "", done.stdout)  # without the overstrikes that make letters bold
    assert "--stop-timeout SECONDS" in text and "pleiad launch [OPTIONS] CMD ARGS..." in text
