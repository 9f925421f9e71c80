"""The classes that a YAML file may create, and how they take their fields."""

import copy
import difflib
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from pleiad.errors import InvalidArgument

T = TypeVar("T", bound=type)

_classes: dict[str, type] = {}

REQUIRED: Any = object()


def register(cls: T) -> T:
    """Lets YAML files create a class, by its name. What derives from Component is registered by itself."""
    _classes[cls.__name__] = cls
    return cls


def known() -> list[str]:
    return sorted(_classes)


def nearest(word: str, names: "list[str]") -> str:
    close = difflib.get_close_matches(word, names, 1)
    return f' (did you mean "{close[0]}"?)' if close else ""


def find(path: str) -> type:
    """By "neon.models.convnet_dist.ConvnetDist", "layers.ConvLayer" or "my_module.MyLayer": the last word counts."""
    name = path.rpartition(".")[2]
    if name in _classes:
        return _classes[name]
    raise InvalidArgument(f'unknown class "{path}"; known: {", ".join(known())}{nearest(name, known())}')


class Component:
    """Something that a YAML file creates: `fields` has its settings with what they are unless given, or REQUIRED."""

    fields: ClassVar[Mapping[str, Any]] = {}
    _own: ClassVar[Mapping[str, Any]] = {}
    #: Settings that old files have and that say nothing here.
    ignored: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls._own = dict(vars(cls).get("fields", {}))
        merged: dict[str, Any] = {}
        for base in reversed(cls.__mro__):  # what a class says itself, not what it has from others
            merged.update(vars(base).get("_own", {}))
        cls.fields = merged
        cls.ignored = frozenset().union(*(vars(base).get("ignored", ()) for base in cls.__mro__))
        register(cls)

    def __init__(self, **given: Any) -> None:
        where = type(self).__name__
        names = sorted(self.fields)
        for name in given:
            if name not in self.fields and name not in self.ignored:
                raise InvalidArgument(f'{where} has no "{name}"; known: {", ".join(names)}{nearest(name, names)}')
        missing = [name for name, usual in self.fields.items() if usual is REQUIRED and name not in given]
        if missing:
            raise InvalidArgument(f"{where} needs {', '.join(missing)}; received {', '.join(given) or 'nothing'}")
        for name, usual in self.fields.items():
            setattr(self, name, _like(usual, given[name], where, name) if name in given else copy.deepcopy(usual))
        self.dist_flag: bool = bool(getattr(self, "dist_flag", False))


def _like(usual: Any, value: Any, where: str, name: str) -> Any:
    """YAML takes 1e-3 for text; and a wrong kind of value is told here."""
    if isinstance(usual, bool):
        if not isinstance(value, bool):
            raise InvalidArgument(f"{where}.{name}: expected true or false; received {value!r}")
    elif isinstance(usual, int | float):
        try:
            value = float(value) if isinstance(usual, float) else int(value)
        except (TypeError, ValueError):
            raise InvalidArgument(f"{where}.{name}: expected a number; received {value!r}") from None
    elif isinstance(usual, str) and not isinstance(value, str):
        raise InvalidArgument(f"{where}.{name}: expected a word; received {value!r}")
    return value
