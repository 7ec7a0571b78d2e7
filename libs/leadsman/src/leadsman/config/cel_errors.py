"""What the CEL library says about an expression, in words that tell an operator where and how to mend it."""

import difflib
import re
from collections.abc import Iterable, Iterator

from leadsman.config.cel_variables import VARIABLES
from leadsman.domain.fact_table import FACTS

FUNCTIONS = (
    *("all", "bool", "bytes", "contains", "double", "duration", "dyn", "endsWith", "exists", "exists_one", "filter"),
    *("has", "int", "map", "matches", "size", "startsWith", "string", "timestamp", "type", "uint"),
)
"""The usual functions and macros of CEL; those that take times apart are left out."""

_TOO_DEEP = (
    "is nested, or chained as in a + b + c, more than 32 times over; group it with parentheses, or write several rules"
)
_ENDLESS = "takes more than 10,000 steps of all(), exists(), map() or filter() whatever the node is like"
_PREFIX = "node."
_LISTED = " ('leadsman policy facts' lists all)"
_RECURSION = re.compile("recursion (limit|depth)")
_ERROR = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)")
_UNDECLARED = re.compile(r"undeclared reference to '([^']*)'")
_OVERLOAD = re.compile(r"found no matching overload for '(.+)' applied to '(\(.*\))'")
_MIXED = frozenset({"(double, int)", "(int, double)"})
_DIGIT_NAME = re.compile(r"\bnode\.(\w+)\.(\d\w*)")
_HAS = re.compile(r"\bhas\s*\(\s*(node[\w.`\s]*?)\s*\)")
_FACT_KEY = re.compile(r"""(['"])([^'"]*)\1\s*in\s+node\s*\.\s*facts\b|\bnode\s*\.\s*facts\s*\[\s*(['"])([^'"]*)\3""")
_ABSENT = re.compile(r'No value with name "([^"]+)"')
_MISSING_KEY = re.compile(r'Key not found in map : "(.*)"', re.DOTALL)
_STATUS = re.compile(r"^[A-Z_]+: | \[[A-Z_]+\]$")
"""What every message of the library begins or ends with."""


def explain(words: str, text: str) -> list[str]:
    """The compiler's `words` about the expression `text`: one line for each mistake, with its place in `text`."""
    if _RECURSION.search(words):
        return [_TOO_DEEP]
    found = [
        f"{_place(int(line), int(column), text)}: {_what(_STATUS.sub('', what), int(line), int(column), text)}"
        for line, column, what in _ERROR.findall(words)
    ]
    return found or [_first_line(words)]


def misuses(text: str) -> Iterator[str]:
    """What compiles in `text` and cannot be meant: `has()` of a fact, and keys of `node.facts` that no fact has."""
    for match in _HAS.finditer(text):
        name = re.sub(r"[`\s]", "", match[1])
        if name in VARIABLES:
            fact = name.removeprefix("node.")
            instead = (
                f"write '{fact}' in node.facts" if fact in FACTS else "has() takes a key of it, as node.labels.app"
            )
            yield f"{_at(match.start(), text)}: has() cannot tell whether {name} is known; {instead}"
    for match in _FACT_KEY.finditer(text):
        key = match[2] if match[2] is not None else match[4]
        if key not in FACTS:
            yield f"{_at(match.start(), text)}: no fact is called {key!r}{_nearest(key, FACTS)}{_LISTED}"


def hopeless(words: str) -> str:
    """What of the library's `words` about a made-up node goes for every node; empty if nothing does."""
    if "Iteration budget" in words:
        return _ENDLESS
    _, found, what = words.partition("invalid regular expression: ")
    return f"the pattern of matches() is not one of RE2: {what}" if found else ""


def undecided(words: str, text: str) -> str:
    """Why the expression `text` cannot be evaluated on a node, from the library's `words`; without what may change."""
    if absent := _ABSENT.search(words):
        return f"{absent[1]} is not known"
    if missing := _MISSING_KEY.search(words):
        known = f" {missing[1]!r}" if missing[1] in text else ""
        return f"the expression looks up the key{known} in a map that does not have it"
    what = _first_line(words).partition(":")[0]
    return f"the expression fails: {re.sub('[0-9]+', '#', what)[:100]}"


def _first_line(words: str) -> str:
    return _STATUS.sub("", words.strip().partition("\n")[0]) or "the library gives no reason"


def _what(what: str, line: int, column: int, text: str) -> str:
    if found := _UNDECLARED.search(what):
        return _unknown(found[1], is_function=_character(line, column, text) == "(")
    if found := _OVERLOAD.search(what):
        hint = "; int and double do not mix: write 0.5 or 1.0 beside a number, 1 beside a whole number, or double(...)"
        return f"{found[1].strip('_')!r} cannot take {found[2]}{hint if found[2] in _MIXED else ''}"
    what = what.partition(" expecting ")[0].replace("'<EOF>'", "the end of the expression")
    digit = _DIGIT_NAME.search(text)
    return f"{what}; write node.{digit[1]}.`{digit[2]}`" if digit else what


def _unknown(name: str, *, is_function: bool) -> str:
    if is_function:
        return f"unknown function {name!r}{_nearest(name, FUNCTIONS)} (known: {', '.join(FUNCTIONS)})"
    names = [each.removeprefix(_PREFIX) for each in VARIABLES]
    hint = _nearest(name.removeprefix(_PREFIX), names, _PREFIX) or f"; all names begin with {_PREFIX}"
    return f"unknown name {name!r}{hint}{_LISTED}"


def _nearest(word: str, known: Iterable[str], prefix: str = "") -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean {prefix + close[0]!r}?" if close else ""


def _character(line: int, column: int, text: str) -> str:
    lines = text.splitlines()
    return lines[line - 1][column - 1 : column] if 0 < line <= len(lines) and column > 0 else ""


def _at(position: int, text: str) -> str:
    before = text[:position]
    return _place(before.count("\n") + 1, position - before.rfind("\n"), text)


def _place(line: int, column: int, text: str) -> str:
    return f"line {line}, column {column}" if "\n" in text.strip() else f"column {column}"
