"""Answers kept with their generation, so that a replica may say `Unchanged` instead of sending one again."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from leadsman.domain.requirements import Near, Requirement


class Prepared(Protocol):
    """An answer ready for use."""

    @property
    def size(self) -> int:
        """Nodes named in the answer."""
        ...


A = TypeVar("A", bound=Prepared)
A_co = TypeVar("A_co", covariant=True, bound=Prepared)

MAX_ANSWERS = 256
"""Questions whose answers are kept, least recently used out first."""

MAX_NODES = 100_000
"""Nodes in all answers kept; about 300 bytes each with name, score and reply entry."""


class AnswerKey(NamedTuple):
    """All that the part of an answer depends on that pods share.

    `needs` are without the names of volumes; `rules` are positions among the selectors that the policy's Hello named.
    """

    needs: tuple[Requirement, ...]
    policy: str
    rules: tuple[int, ...]
    near: Near


@dataclass(frozen=True, slots=True)
class Kept(Generic[A_co]):
    """An answer, and which replica gave it under which number."""

    instance: str
    generation: int
    answer: A_co


class KeptAnswers(Generic[A]):
    """The last answer to each question."""

    def __init__(self) -> None:
        self._answers: OrderedDict[AnswerKey, Kept[A]] = OrderedDict()
        self._nodes = 0

    def get(self, key: AnswerKey, instance: str) -> Kept[A] | None:
        """The answer kept, if it is of `instance`: generations of different ones do not compare."""
        kept = self._answers.get(key)
        return kept if kept is not None and kept.instance == instance else None

    def put(self, key: AnswerKey, kept: Kept[A]) -> None:
        """Keep an answer, new or used again."""
        before = self._answers.get(key)
        if before is not kept:
            self._nodes += kept.answer.size - (before.answer.size if before else 0)
            self._answers[key] = kept
        self._answers.move_to_end(key)
        while len(self._answers) > MAX_ANSWERS or (self._nodes > MAX_NODES and len(self._answers) > 1):
            _, dropped = self._answers.popitem(last=False)
            self._nodes -= dropped.answer.size
