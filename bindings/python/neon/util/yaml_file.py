"""Loads YAML files, whose !obj: tags may only create registered classes."""

from pathlib import Path
from typing import Any

import yaml

from neon.util import registry
from pleiad.errors import FileError, InvalidArgument

TAG = "!obj:"
DEEPEST = 50  #: maximum nesting depth; experiments have about six levels
LARGEST = 1_000_000  #: maximum number of characters of a file; experiments have a few thousand
MOST_MERGED = 10_000  #: maximum number of fields of a mapping after its merges ("<<")


def load(path: "str | Path") -> Any:
    """Returns the object that a file describes. Raises a FileError with file, line and what is known."""
    try:
        text = Path(path).expanduser().read_text()
    except (OSError, ValueError) as problem:
        raise FileError(f"{path}: cannot read the file: {problem}") from None
    return loads(text, str(path))


def loads(text: str, name: str = "text") -> Any:
    import neon.everything  # noqa: F401  the classes that come with neon

    _expect_text(text, name)
    loader = _Loader(text)
    loader.file = name
    try:
        return loader.get_single_data()
    except FileError as problem:
        # A quoted string may contain escaped control characters.
        raise FileError(_printable(str(problem))) from None
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        line = "" if mark is None else f":{mark.line + 1}"
        raise FileError(_printable(f"{name}{line}: {problem.problem or problem.context}")) from None
    except (
        yaml.YAMLError,
        ValueError,
    ) as problem:  # PyYAML raises a ValueError for numbers and dates that Python refuses
        raise FileError(_printable(f"{name}: {' '.join(str(problem).split())}")) from None
    finally:
        loader.dispose()  # type: ignore[no-untyped-call]


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _expect_text(text: str, name: str) -> None:
    if len(text) > LARGEST:
        raise FileError(f"{name}: has {len(text):,} characters; expected an experiment of at most {LARGEST:,}")
    for number, line in enumerate(text.split("\n"), 1):
        bad = yaml.reader.Reader.NON_PRINTABLE.search(line)
        if bad is not None:
            raise FileError(f"{name}:{number}: the character {ord(bad[0]):#04x} is not allowed in a YAML file")


class _Loader(yaml.SafeLoader):
    file = "text"
    depth = 0

    def where(self, node: yaml.Node) -> str:
        return f"{self.file}:{node.start_mark.line + 1}"

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.depth += 1
        if self.depth > DEEPEST:
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise FileError(
                f"{self.file}:{event.start_mark.line + 1}: nested more than {DEEPEST} levels deep; expected an experiment"
            )
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)  # type: ignore[no-untyped-call]
        if len(node.value) > MOST_MERGED:
            raise FileError(f"{self.where(node)}: its merges give it more than {MOST_MERGED:,} fields")

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise FileError(f'{self.where(key)}: duplicate key "{key.value}"')
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def _object(loader: _Loader, suffix: str, node: yaml.Node) -> Any:
    lines: dict[str, int] = {}
    try:
        cls = registry.find(suffix)
        if isinstance(node, yaml.MappingNode):
            given = loader.construct_mapping(node, deep=True)
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode):
                    lines[key.value] = key.start_mark.line + 1
        elif isinstance(node, yaml.ScalarNode) and not node.value:
            given = {}
        else:
            raise InvalidArgument(f"{suffix}: expected fields in braces")
        bad = [key for key in given if not isinstance(key, str)]
        if bad:
            raise InvalidArgument(f"{suffix}: expected names of fields; received {bad[0]!r}")
        made = cls(**given)
    except registry.FieldError as problem:
        if problem.located:
            raise FileError(str(problem)) from None
        line = lines.get(problem.field, node.start_mark.line + 1)
        raise FileError(f"{loader.file}:{line}: {problem}") from None
    except InvalidArgument as problem:
        raise FileError(f"{loader.where(node)}: {problem}") from None
    if isinstance(made, registry.Component):
        made.located(loader.file, node.start_mark.line + 1, lines)
    return made


_Loader.add_multi_constructor(TAG, _object)  # type: ignore[no-untyped-call]
