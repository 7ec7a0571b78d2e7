"""Verdicts: whether a node takes a pod, and if not, why."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from leadsman.domain.reasons import Reason, reply_text


@dataclass(frozen=True)
class Rejection:
    """Why a node is kept from a pod: a reason of the closed set and the driver it is about."""

    reason: Reason
    driver: str

    @cached_property
    def text(self) -> str:
        """What kube-scheduler is told, byte-identical on every replica and attempt."""
        return reply_text(self.reason, self.driver)


_NOBODY: Mapping[str, Rejection] = {}


class FilterAnswer(NamedTuple):
    """The filter's answer to one set of requirements, for every node it knows.

    With `otherwise` None all nodes pass but those in `rejected`; else only those in `allowed` pass, and a node in
    neither fails with `otherwise`. In either form, nodes in `volumes` fail too: a volume that the pod needs is bad
    there. The rest of the answer is the same for all pods that need the same storage.
    """

    rejected: Mapping[str, Rejection]
    allowed: frozenset[str] = frozenset()
    otherwise: Rejection | None = None
    volumes: Mapping[str, Rejection] = _NOBODY

    def verdict(self, node: str) -> Rejection | None:
        """The rejection of `node`, or None if it may take the pod."""
        otherwise = None if node in self.allowed else self.otherwise
        return self.rejected.get(node, otherwise) or self.volumes.get(node)


class ScoreAnswer(NamedTuple):
    """The scorer's answer: 0-10 for every node it knows, and `default` for the others."""

    scores: Mapping[str, int]
    default: int
