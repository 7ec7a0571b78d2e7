"""Rules in CEL, the language that operators know from Kubernetes, over the facts that collectors report.

Google's C++ implementation through `cel-expr-python`; docs/policy.md says why. Expressions are type-checked when the
policy is loaded, cost some 5 us on a node, and one that would never end runs out of its budget of iterations.
"""

import contextlib
import math
import re
import time
from collections.abc import Sequence
from typing import Any, Literal

from leadsman.config.cel_errors import explain, hopeless, misuses, undecided
from leadsman.config.cel_variables import ENVIRONMENT, VARIABLES, NodeActivation, sample
from leadsman.domain.errors import LeadsmanError
from leadsman.domain.node_facts import NodeFacts
from leadsman.domain.policy import UndecidedError

MAX_LENGTH = 4096
"""Characters of one expression; a longer one is no rule that people can check."""

MAX_TRIAL_S = 0.05
"""Processor time that an expression may take on the made-up node; it holds up everything else, on every node anew."""

Use = Literal["require", "prefer"]

_FAILURES = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)
"""What exceptions of C++ become in Python, as pybind11 translates them, but for lack of memory."""

_PATTERN = re.compile(r"""\.\s*matches\s*\(\s*([rR]?(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"))\s*\)""")
"""A literal in the place of a regular expression."""

_WANTED = {
    "require": (frozenset({"BOOL"}), "true or false"),
    "prefer": (frozenset({"BOOL", "INT", "DOUBLE"}), "true or false, or a number from 0 to 1"),
}


class CelError(LeadsmanError):
    """An expression that cannot be used; `problems` say where in it and why, the message all of them."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(problems))


class CelTest:
    """One expression, compiled; for `require` it gives a bool, for `prefer` a bool or a number (taken as 0 to 1).

    Tests of one policy share `values`. Two tests of the same text are equal.

    Raises:
        CelError: the expression does not compile, its type does not fit, or it fails whatever a node is like.
    """

    __slots__ = ("_program", "_values", "reads", "text")

    def __init__(self, text: str, use: Use, values: NodeActivation | None = None) -> None:
        self.text = text
        self._program = _compile(text)
        _check_type(self._program, use)
        _check_on_every_node(self._program, text)
        # The checked expression holds the full name of every variable that it refers to.
        compiled = self._program.serialize()
        names = [name for name in VARIABLES if name.encode() in compiled]
        self.reads = frozenset(VARIABLES[name].reads for name in names)
        """See `NodeTest.reads`; a name within a text counts, too, which costs an evaluation at most."""
        self._values = values or NodeActivation()
        self._values.include(names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CelTest) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"CelTest({self.text!r})"

    def evaluate(self, node: NodeFacts) -> float:
        """0 to 1.

        Raises:
            UndecidedError: a fact that the expression needs is not known, or the expression fails on this node.
        """
        try:
            result = self._program.eval(activation=self._values.of(node)).value()
        except _FAILURES as error:
            raise UndecidedError(undecided(str(error), self.text)) from error
        if isinstance(result, bool):
            return float(result)
        if not isinstance(result, int | float):
            raise UndecidedError(undecided(str(result), self.text))
        if not math.isfinite(result):
            raise UndecidedError("the expression gives no finite number")
        return min(1.0, max(0.0, float(result)))


def _compile(text: str) -> Any:  # noqa: ANN401 - the library's own type
    if not text.strip():
        raise CelError(["is empty; write an expression such as 'node.gpu.count >= 1'"])
    if len(text) > MAX_LENGTH:
        raise CelError([f"{len(text)} characters, over the limit of {MAX_LENGTH}"])
    try:
        program = ENVIRONMENT.compile(text)
    except _FAILURES as error:
        raise CelError(explain(str(error), text)) from error
    if found := list(misuses(text)):
        raise CelError(found)
    return program


def _check_type(program: Any, use: Use) -> None:  # noqa: ANN401
    types, words = _WANTED[use]
    try:
        kind = program.return_type().name().lower()
    except _FAILURES:  # the library has no name for it, such as that of a map by numbers
        kind = "something else"
    if kind.upper() not in types:
        raise CelError([f"gives {kind}, but {use}.cel must give {words}"])


def _check_on_every_node(program: Any, text: str) -> None:  # noqa: ANN401
    """Refuse what fails whatever a node is like: a bad pattern, and loops that a made-up node shows to be too long."""
    began = time.thread_time()
    tried = [_try(program)]
    if time.thread_time() - began > MAX_TRIAL_S:
        raise CelError(["takes too long: a node must be judged within microseconds; use fewer loops and patterns"])
    for literal in _PATTERN.findall(text):
        with contextlib.suppress(*_FAILURES):  # it stands in a comment and is none
            tried.append(_try(ENVIRONMENT.compile(f"''.matches({literal})")))
    if found := [problem for words in tried if (problem := hopeless(words))]:
        raise CelError(found[:1])


def _try(program: Any) -> str:  # noqa: ANN401
    """What comes of `program` on a made-up node, in the library's words."""
    try:
        return str(program.eval(activation=sample()).value())
    except _FAILURES as error:
        return str(error)
