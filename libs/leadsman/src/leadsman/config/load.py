"""Read one strict configuration document into a msgspec struct."""

import re
from pathlib import Path as FilePath
from typing import TypeVar

import msgspec

from leadsman.config.check import Checker
from leadsman.config.errors import DocumentError, Problem
from leadsman.config.tree import Path, Tree, parse_tree

T = TypeVar("T", bound=msgspec.Struct)

MAX_FILE_BYTES = 1024 * 1024
"""What a ConfigMap can hold; a larger file is a mistake."""

_PLACE = re.compile(r"^(?P<words>.*?)(?: - at `(?:key in )?\$(?P<path>[^`]*)`)?$", re.DOTALL)
_PART = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")


def load_document(path: FilePath, kind: type[T]) -> T:
    """The document in the file `path`, checked against the struct `kind`.

    Raises:
        DocumentError: the file cannot be read or used; the message names file, line, key and nearest valid key.
    """
    return parse_document(read_text(path), kind, str(path))


def read_text(path: FilePath) -> str:
    """All of the file `path`.

    Raises:
        DocumentError: it cannot be read, is too large, or is not UTF-8 text.
    """
    try:
        body = path.read_bytes()
        if len(body) > MAX_FILE_BYTES:
            raise DocumentError(str(path), [Problem(0, "", f"{len(body)} bytes, over the limit of {MAX_FILE_BYTES}")])
        return body.decode()
    except OSError as error:
        words = f"cannot be read: {error.strerror}; check the path and its permissions"
        raise DocumentError(str(path), [Problem(0, "", words)]) from error
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise DocumentError(str(path), [Problem(line, "", "not UTF-8 text")]) from error


def parse_document(text: str, kind: type[T], source: str) -> T:
    """The document in `text`, checked against the struct `kind`; `source` stands for the file in errors.

    Unknown keys, duplicate keys and wrong types are refused, all at once where they can be told apart.

    Raises:
        DocumentError: the document cannot be used.
    """
    return parse_with_lines(text, kind, source)[0]


def parse_with_lines(text: str, kind: type[T], source: str) -> tuple[T, Tree]:
    """As `parse_document`, with the tree that knows the line of every path, for whoever checks further.

    Raises:
        DocumentError: the document cannot be used.
    """
    tree = parse_tree(text, source)
    checker = Checker(tree)
    checker.check(tree.value, kind)
    if checker.problems:
        raise DocumentError(source, checker.problems)
    try:
        return msgspec.convert(tree.value, kind), tree
    except msgspec.ValidationError as error:
        raise DocumentError(source, [_residual(error, tree)]) from error


def _residual(error: msgspec.ValidationError, tree: Tree) -> Problem:
    """What only msgspec knows: bounds of a number, patterns, and the struct's own `__post_init__`."""
    found = _PLACE.match(str(error))
    words, place = (found["words"], found["path"] or "") if found else (str(error), "")
    path: Path = tuple(name or int(index) for name, index in _PART.findall(place))
    return Problem(tree.line(path), place.removeprefix("."), words)
