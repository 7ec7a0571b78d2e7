"""YAML text as plain values that remember their lines, refusing what would be read differently than it looks."""

from dataclasses import dataclass, field

import yaml

from leadsman.config.errors import DocumentError, Problem

Path = tuple[str | int, ...]
"""Where a value is: keys and list positions from the top."""

_MAX_DEPTH = 32
_SCALARS = frozenset({"str", "int", "float", "bool", "null"})
_MAX_INT = 2**63
_SHOWN = 40
"""Characters of a wrong value that a message shows."""


@dataclass(frozen=True, slots=True)
class Tree:
    """Plain values (`dict`, `list`, `str`, `int`, `float`, `bool`, None) and the line on which each path begins."""

    value: object
    lines: dict[Path, int] = field(default_factory=dict)

    def line(self, path: Path) -> int:
        """The line of `path`, or of the nearest enclosing value."""
        while path not in self.lines and path:
            path = path[:-1]
        return self.lines.get(path, 0)


def dotted(path: Path) -> str:
    """`endpoints[0].driver`; a key that holds a dot is quoted, as in `drivers."nfs.csi.k8s.io".unknown`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + (f'"{part}"' if "." in part else part)
    return text


def parse_tree(text: str, source: str) -> Tree:
    """The one YAML document in `text`.

    Raises:
        DocumentError: not YAML, empty, more than one document, a duplicate or non-string key, an alias, a merge key,
            a tag, or nesting deeper than 32.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise DocumentError(source, [_syntax_problem(error)]) from error
    except RecursionError as error:
        raise DocumentError(source, [_too_deep(0, ())]) from error
    if node is None:
        raise DocumentError(source, [Problem(0, "", "the file is empty")])
    reader = _Reader()
    value = reader.read(node, ())
    if reader.problems:
        raise DocumentError(source, reader.problems)
    return Tree(value, reader.lines)


def _syntax_problem(error: yaml.YAMLError) -> Problem:
    if not isinstance(error, yaml.MarkedYAMLError):
        return Problem(0, "", f"not YAML: {str(error).splitlines()[0]}")
    mark = error.problem_mark or error.context_mark
    words = " ".join(part for part in (error.context, error.problem) if part)
    return Problem(mark.line + 1 if mark else 0, "", f"not YAML: {words}")


def _too_deep(line: int, path: Path) -> Problem:
    return Problem(line, dotted(path[:3]), f"nested deeper than {_MAX_DEPTH} levels")


def _is_unicode(text: str) -> bool:
    r"""Whether `text` can be written as UTF-8; YAML lets "\ud800" through, which nothing behind us could send on."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class _Reader:
    """Turns composed nodes into values, collecting lines and problems on the way."""

    def __init__(self) -> None:
        self.lines: dict[Path, int] = {}
        self.problems: list[Problem] = []
        self._seen: set[int] = set()
        self._constructor = yaml.constructor.SafeConstructor()

    def read(self, node: yaml.Node, path: Path) -> object:
        """The value of `node`; None where a problem was found."""
        line = node.start_mark.line + 1
        self.lines.setdefault(path, line)
        if id(node) in self._seen:
            self._refuse(line, path, "an alias (*name) is not supported; write the value again")
            return None
        self._seen.add(id(node))
        if len(path) > _MAX_DEPTH:
            self.problems.append(_too_deep(line, path))
            return None
        match node:
            case yaml.MappingNode():
                return self._mapping(node, path)
            case yaml.SequenceNode():
                return [self.read(child, (*path, index)) for index, child in enumerate(node.value)]
            case _:
                return self._scalar(node, path)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, object]:
        values: dict[str, object] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node, path)
            if key is None:
                continue
            where = (*path, key)
            if key in values:
                first = self.lines[where]
                self._refuse(key_node.start_mark.line + 1, where, f"duplicate key; it is set on line {first} already")
                continue
            self.lines[where] = key_node.start_mark.line + 1
            values[key] = self.read(value_node, where)
        return values

    def _key(self, node: yaml.Node, path: Path) -> str | None:
        if node.tag == "tag:yaml.org,2002:merge":
            words = "a merge key (<<) is not supported; write the keys out"
        elif not isinstance(node, yaml.ScalarNode):
            words = "a key must be text"
        elif node.tag != "tag:yaml.org,2002:str":
            words = f"the key {node.value[:_SHOWN]!r} is not read as text; put it in quotes"
        elif not _is_unicode(node.value):
            words = f"the key {node.value[:_SHOWN]!r} has half of a surrogate pair; write the character itself"
        else:
            return str(node.value)
        self._refuse(node.start_mark.line + 1, path, words)
        return None

    def _scalar(self, node: yaml.Node, path: Path) -> object:
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        shown = node.value[:_SHOWN]
        if not _is_unicode(node.value):
            words = f"{shown!r} has half of a surrogate pair; write the character itself"
        elif kind == "timestamp":  # a date is text to us; YAML alone would turn it into another type
            return str(node.value)
        elif kind not in _SCALARS:
            words = f"the tag {node.tag!r} is not supported"
        else:
            try:
                return self._construct(node)
            except (ArithmeticError, LookupError, ValueError, yaml.YAMLError):
                words = f"{shown!r} cannot be read as {kind}"
        self._refuse(node.start_mark.line + 1, path, words)
        return None

    def _construct(self, node: yaml.Node) -> object:
        value: object = self._constructor.construct_object(node)
        if isinstance(value, int) and abs(value) >= _MAX_INT:
            raise OverflowError
        return value

    def _refuse(self, line: int, path: Path, words: str) -> None:
        self.problems.append(Problem(line, dotted(path), words))
