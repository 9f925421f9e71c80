#!/usr/bin/env python3
"""Makes docs/cli.md, the man page and the completions of bash and zsh from what the commands print for --help.

    tools/cli_pages.py [--build build/release] [--root .]

`make cli-pages` runs it; tests/cli/test_cli_pages.py compares its output with the files.
"""

import argparse
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLUMN = 30  # where CLI11 puts the descriptions


@dataclass
class Entry:
    names: list[str]  # -n and --ranks, or the name of a positional
    kind: str  # what CLI11 calls the value: INT, TEXT:FILE, TEXT:{core,none}
    default: str
    required: bool
    text: str

    @property
    def choices(self) -> list[str]:
        found = re.search(r"\{(.+)\}", self.kind)
        return found.group(1).split(",") if found else []

    @property
    def value(self) -> str:
        """The placeholder of the value: SECONDS, FILE, INT; empty for a flag."""
        if self.choices:
            return "|".join(self.choices)
        return self.kind.removesuffix(":NONNEGATIVE").rsplit(":", 1)[-1]


@dataclass
class Help:
    name: str
    text: str
    usage: str = ""
    entries: list[Entry] = field(default_factory=list)
    footer: str = ""

    @property
    def options(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.names[0].startswith("-")]

    @property
    def positionals(self) -> list[Entry]:
        return [entry for entry in self.entries if not entry.names[0].startswith("-")]


def parse_entry(left: str, text: str) -> Entry:
    words = left.split()
    required = "REQUIRED" in words
    words = [word for word in words if word not in ("REQUIRED", "...")]
    kind, default = "", ""
    if len(words) > 1:
        kind, _, default = words[1].partition("=")
    return Entry(re.sub(r"\{false\}", "", words[0]).split(","), kind, default, required, text)


def parse(name: str, printed: str) -> Help:
    """Reads what CLI11 prints: a description, the usage, sections with a column for names and one for descriptions, a footer."""
    lines = printed.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("Usage:"))
    help = Help(name, " ".join(lines[:at]).strip(), lines[at].removeprefix("Usage: "))
    section, footer = "", []
    rest = iter(range(at + 1, len(lines)))
    for i in rest:
        line = lines[i]
        if re.fullmatch(r"(Positionals|Options|Subcommands):", line):
            section = line
        elif section and line.startswith("  "):
            following = lines[i + 1] if i + 1 < len(lines) else ""
            if following.startswith(" " * COLUMN):
                left, text = line, following
                next(rest)
            else:
                left, text = line[:COLUMN], line[COLUMN:]
            help.entries.append(parse_entry(left, text.strip()))
        elif line.strip():
            section = ""
            footer.append(line)
    help.footer = "\n".join(footer)
    return help


def output_of(*words: object, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, env={**os.environ, **(env or {})}
    )
    if done.returncode != 0:
        sys.exit(f"cli_pages: {words} failed: {done.stderr}")
    return done.stdout


def read_commands(pleiad: Path) -> tuple[Help, list[Help]]:
    top = parse("pleiad", output_of(pleiad, "--help"))
    return top, [parse(entry.names[0], output_of(pleiad, "help", entry.names[0])) for entry in top.positionals]


def usage_of(command: Help) -> str:
    return command.usage + (" CMD ARGS..." if command.name == "launch" else "")


def markdown(top: Help, commands: list[Help], neon: str) -> str:
    short = {entry.names[0]: entry.text for entry in top.positionals}
    page = """# Commands

This page lists every option of the commands. `make cli-pages` makes it, the man page `pleiad(1)` and the completions from the commands'
`--help`; `pleiad help COMMAND` prints one section. Completion: `source <(pleiad completion bash)`, or `zsh`. `pleiad --version` prints
the version.

| command | does |
|---|---|
"""
    page += "".join(f"| [`pleiad {c.name}`](#pleiad-{c.name}) | {short[c.name]} |\n" for c in commands)
    page += "| [`neon`](#neon) | Run an experiment of neon |\n"
    for command in commands:
        page += f"\n## pleiad {command.name}\n{command.text.rstrip('.')}.\n\n    {usage_of(command)}\n"
        entries = [entry for entry in command.entries if entry.names[0] != "-h"]
        if entries:
            page += "\n| | value | default | meaning |\n|---|---|---|---|\n"
        for entry in entries:
            names = ", ".join(f"`{name}`" for name in entry.names)
            value = f"`{entry.value}`".replace("|", "\\|") if entry.value else ""
            default = "required" if entry.required else f"`{entry.default}`" if entry.default else ""
            page += f"| {names} | {value} | {default} | {entry.text} |\n"
        if command.footer:
            page += "\n" + "\n".join(f"    {line.strip()}" for line in command.footer.splitlines()) + "\n"
    return page + "\n## neon\n" + "\n".join(f"    {line}".rstrip() for line in neon.splitlines()) + "\n"


def roff(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def man_page(top: Help, commands: list[Help]) -> str:
    page = f""".\\" tools/cli_pages.py makes this page.
.TH PLEIAD 1 "" "Pleiad" "User Commands"
.SH NAME
pleiad \\- train one model on many processes
.SH SYNOPSIS
.B pleiad
.I COMMAND
[\\fIOPTIONS\\fR]
.SH DESCRIPTION
{roff(top.text)}
.B pleiad help
.I COMMAND
prints the help of one command.
.SH COMMANDS
"""
    for command in commands:
        page += f".SS {roff(usage_of(command))}\n{roff(command.text.rstrip('.'))}.\n"
        for entry in command.entries:
            value = f" \\fI{roff(entry.value)}\\fR" if entry.value and entry.names[0].startswith("-") else ""
            names = ", ".join(f"\\fB{roff(name)}\\fR" for name in entry.names)
            default = f" Default: {roff(entry.default)}." if entry.default else ""
            page += f".TP\n{names}{value}\n{roff(entry.text.rstrip('.'))}.{default}\n"
        if command.footer:
            page += ".PP\n.nf\n" + "\n".join(roff(line.strip()) for line in command.footer.splitlines()) + "\n.fi\n"
    return page + ".SH SEE ALSO\nThe documentation of Pleiad: docs/cli.md, docs/cluster.md, docs/parameters.md\n"


def bash_completion(top: Help, commands: list[Help]) -> str:
    names = [command.name for command in commands]
    lines = [
        "# Completion of the command pleiad for bash. tools/cli_pages.py makes this file.",
        "_pleiad() {",
        "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} known= i",
        "  COMPREPLY=()",
        "  if ((COMP_CWORD == 1)); then",
        f'    COMPREPLY=($(compgen -W "{" ".join(names)} --help --version" -- "$word"))',
        "    return",
        "  fi",
        "  case ${COMP_WORDS[1]}:$before in",
        f'    help:*) COMPREPLY=($(compgen -W "{" ".join(names)}" -- "$word")) && return ;;',
    ]
    for command in commands:
        for entry in command.entries:
            if entry.choices:
                patterns = [f"{command.name}:{name}" for name in entry.names if name.startswith("-")]
                patterns = patterns or [f"{command.name}:{command.name}"]
                choices = " ".join(entry.choices)
                lines.append(
                    f'    {" | ".join(patterns)}) COMPREPLY=($(compgen -W "{choices}" -- "$word")) && return ;;'
                )
    lines += ["  esac", "  case ${COMP_WORDS[1]} in"]
    for command in commands:
        options = " ".join(name for entry in command.options for name in entry.names)
        lines.append(f'    {command.name}) known="{options}" ;;')
    with_value = " | ".join(
        name for c in commands if c.name == "launch" for entry in c.options if entry.value for name in entry.names
    )
    lines += [
        "  esac",
        "  if [[ ${COMP_WORDS[1]} == launch ]]; then",
        "    # The command that launch runs, and its arguments, follow the options.",
        "    for ((i = 2; i < COMP_CWORD; ++i)); do",
        "      case ${COMP_WORDS[i]} in",
        f"        {with_value}) ((++i)) ;;",
        "        -*) ;;",
        "        *) return ;;",
        "      esac",
        "    done",
        "    if ((i == COMP_CWORD)) && [[ $word != -* ]]; then",
        '      COMPREPLY=($(compgen -c -- "$word"))',
        "      return",
        "    fi",
        "  fi",
        '  [[ $word != -* ]] || COMPREPLY=($(compgen -W "$known" -- "$word"))',
        "}",
        "complete -o default -F _pleiad pleiad",
    ]
    return "\n".join(lines) + "\n"


def zsh_text(text: str) -> str:
    return re.sub(r"([\[\]:\\])", r"\\\1", text).replace("'", "'\\''")


def zsh_value(entry: Entry) -> str:
    if not entry.value:
        return ""
    action = f"({' '.join(entry.choices)})" if entry.choices else "_files" if entry.kind.startswith("TEXT") else ""
    label = "value" if entry.choices else entry.value.lower()
    return f":{label}:{action}"


def zsh_completion(top: Help, commands: list[Help]) -> str:
    short = {entry.names[0]: entry.text for entry in top.positionals}
    lines = [
        "#compdef pleiad",
        "# Completion of the command pleiad for zsh. tools/cli_pages.py makes this file.",
        "_pleiad() {",
        "  local -a commands",
        "  commands=(",
        *(f"    '{c.name}:{zsh_text(short[c.name])}'" for c in commands),
        "  )",
        "  if ((CURRENT == 2)); then",
        "    _describe command commands",
        "    return",
        "  fi",
        "  local command=$words[2]",
        "  shift words",
        "  ((CURRENT--))",
        "  case $command in",
    ]
    for command in commands:
        if command.name == "help":
            lines.append("    help) _describe command commands ;;")
            continue
        lines.append(f"    {command.name})")
        words = []
        for entry in command.options:
            text, value = zsh_text(entry.text), zsh_value(entry)
            if len(entry.names) > 1:
                words.append(f"'({' '.join(entry.names)})'{{{','.join(entry.names)}}}'[{text}]{value}'")
            else:
                words.append(f"'{entry.names[0]}[{text}]{value}'")
        for entry in command.positionals:
            words.append(
                f"':{entry.names[0].lower()}{zsh_value(entry).removeprefix(':' + entry.value.lower()) or ':_files'}'"
            )
        if command.name == "launch":
            words.append("'*::command:_normal'")
        lines.append("      _arguments -s \\\n        " + " \\\n        ".join(words))
        lines.append("      ;;")
    lines += [
        "  esac",
        "}",
        'if [[ ${funcstack[1]} == _pleiad ]]; then _pleiad "$@"; else compdef _pleiad pleiad; fi',
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--build", type=Path, default=ROOT / "build" / "release", help="the build whose commands are asked"
    )
    parser.add_argument("--root", type=Path, default=ROOT, help="where to write")
    given = parser.parse_args()
    top, commands = read_commands(given.build / "bin" / "pleiad")
    # argparse breaks lines at the width of the terminal.
    env = {"PYTHONPATH": str(given.build / "python"), "COLUMNS": "110", "NO_COLOR": "1"}
    neon = output_of(sys.executable, "-m", "neon", "--help", env=env)
    for path, text in {
        "docs/cli.md": markdown(top, commands, neon),
        "cli/pages/pleiad.1": man_page(top, commands),
        "cli/pages/pleiad.bash": bash_completion(top, commands),
        "cli/pages/_pleiad": zsh_completion(top, commands),
    }.items():
        target = given.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


if __name__ == "__main__":
    main()
