"""Compare plain values with msgspec structs, finding every unknown key and wrong type in one pass."""

import difflib
import enum
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from leadsman.config.errors import Problem
from leadsman.config.tree import Path, Tree, dotted

_NAMES: dict[object, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a mapping of keys to values",
    types.NoneType: "nothing",
}


_ABSENT = (types.NoneType, msgspec.UnsetType)


class Checker:
    """Collects the problems of one tree; `check` may be called for any part of it."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.problems: list[Problem] = []

    def check(self, value: object, wanted: Any, path: Path = ()) -> None:  # noqa: ANN401 - any type annotation
        """Compare `value` at `path` with the annotation `wanted`."""
        origin = typing.get_origin(wanted)
        if origin is typing.Annotated:  # bounds are checked by msgspec afterwards
            self.check(value, typing.get_args(wanted)[0], path)
        elif origin in {typing.Union, types.UnionType}:
            self._check_optional(value, typing.get_args(wanted), path)
        elif isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
            self._check_struct(value, wanted, path)
        elif origin in {list, tuple, set, frozenset}:
            self._check_list(value, typing.get_args(wanted)[0], path)
        elif isinstance(origin, type) and issubclass(origin, Mapping):
            keys, item = typing.get_args(wanted)
            self._check_mapping(value, keys, item, path)
        elif origin is typing.Literal:
            self._check_choice(value, typing.get_args(wanted), path)
        elif isinstance(wanted, type) and issubclass(wanted, enum.Enum):
            self._check_choice(value, [member.value for member in wanted], path)
        else:
            self._check_plain(value, wanted, path)

    def add(self, path: Path, words: str) -> None:
        """Note a problem at `path`."""
        self.problems.append(Problem(self._tree.line(path), dotted(path), words))

    def _check_optional(self, value: object, options: tuple[Any, ...], path: Path) -> None:
        if value is None and types.NoneType in options:
            return
        real = [option for option in options if option not in _ABSENT]
        if len(real) == 1:
            self.check(value, real[0], path)
        elif not any(_fits(value, option) for option in real):
            self.add(path, f"expected {' or '.join(_name(option) for option in real)}, got {_describe(value)}")

    def _check_struct(self, value: object, wanted: type[msgspec.Struct], path: Path) -> None:
        if not isinstance(value, dict):
            self.add(path, f"expected a mapping of keys to values, got {_describe(value)}")
            return
        fields = {each.encode_name: each for each in msgspec.structs.fields(wanted)}
        for key, inner in value.items():
            if key in fields:
                self.check(inner, fields[key].type, (*path, key))
            else:
                self.add((*path, key), f"unknown key; {_nearest(key, fields)}")
        missing = [name for name, each in fields.items() if each.required and name not in value]
        if missing:
            self.add(path, f"missing {'keys' if len(missing) > 1 else 'key'} {', '.join(missing)}")

    def _check_list(self, value: object, item: Any, path: Path) -> None:  # noqa: ANN401
        if not isinstance(value, list):
            self.add(path, f"expected a list, got {_describe(value)}")
            return
        for index, inner in enumerate(value):
            self.check(inner, item, (*path, index))

    def _check_mapping(self, value: object, keys: Any, item: Any, path: Path) -> None:  # noqa: ANN401
        if not isinstance(value, dict):
            self.add(path, f"expected a mapping of keys to values, got {_describe(value)}")
            return
        known = [member.value for member in keys] if isinstance(keys, type) and issubclass(keys, enum.Enum) else None
        for key, inner in value.items():
            if known is None or key in known:
                self.check(inner, item, (*path, key))
            else:
                self.add((*path, key), f"unknown key; {_nearest(key, known)}")

    def _check_choice(self, value: object, choices: Iterable[object], path: Path) -> None:
        names = [str(choice) for choice in choices]
        if not isinstance(value, str):
            self.add(path, f"expected one of {', '.join(names)}, got {_describe(value)}")
        elif value not in names:
            self.add(path, f"{value!r} is not possible here; {_nearest(value, names)}")

    def _check_plain(self, value: object, wanted: Any, path: Path) -> None:  # noqa: ANN401
        if wanted in _NAMES and not _fits(value, wanted):
            hint = "; put it in quotes" if wanted is str and isinstance(value, bool | int | float) else ""
            self.add(path, f"expected {_NAMES[wanted]}, got {_describe(value)}{hint}")


def _fits(value: object, wanted: Any) -> bool:  # noqa: ANN401
    try:
        msgspec.convert(value, wanted)
    except msgspec.ValidationError:
        return False
    return True


def _name(wanted: Any) -> str:  # noqa: ANN401
    return _NAMES.get(typing.get_origin(wanted) or wanted, "a mapping of keys to values")


def _describe(value: object) -> str:
    name = _NAMES.get(type(value), type(value).__name__)
    if isinstance(value, str):
        return f"the text {value[:40]!r}"
    return f"{name} ({value})" if isinstance(value, bool | int | float) else name


def _nearest(word: str, known: Iterable[str]) -> str:
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    listed = ", ".join(names) if names else "none"
    return f"did you mean {close[0]!r}? (known: {listed})" if close else f"known: {listed}"
