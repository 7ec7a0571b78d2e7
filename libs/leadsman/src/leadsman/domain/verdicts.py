"""Verdicts: whether a node takes a pod, and if not, why; and scores with how they came about."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from leadsman.domain.reasons import Reason, reply_text


@dataclass(frozen=True)
class Rejection:
    """Why a node is kept from a pod: a reason of the closed set, and the driver or the policy rule it is about.

    `resolvable` says that evicting pods from the node could help; that is never so for storage.
    """

    reason: Reason
    subject: str
    resolvable: bool = False

    @cached_property
    def text(self) -> str:
        """What kube-scheduler is told, byte-identical on every replica and attempt."""
        return reply_text(self.reason, self.subject)


_NOBODY: Mapping[str, Rejection] = {}


class FilterAnswer(NamedTuple):
    """The filter's answer to one question, for every node it knows.

    With `otherwise` None all nodes pass but those in `rejected`; else only those in `allowed` pass, and a node in
    neither fails with `otherwise`. In either form, nodes in `volumes` fail too: a volume that the pod needs is bad
    there. `shadow` is what rules that are not enforced say; it has no shadow of its own. With `dry_run` nothing of it
    is enforced. All but `volumes` is the same for all pods that ask the same.
    """

    rejected: Mapping[str, Rejection]
    allowed: frozenset[str] = frozenset()
    otherwise: Rejection | None = None
    volumes: Mapping[str, Rejection] = _NOBODY
    shadow: "FilterAnswer | None" = None
    dry_run: bool = False

    def verdict(self, node: str) -> Rejection | None:
        """The rejection of `node`, or None if it may take the pod."""
        rejection = self.rejected.get(node, None if node in self.allowed else self.otherwise)
        bad = self.volumes.get(node)
        # A bad volume must not hide behind a rule that evictions could help against: they would be for nothing.
        return bad if bad is not None and (rejection is None or rejection.resolvable) else rejection


UNKNOWN_VALUE = 255
"""Stands in a component's column for a node where it is not known."""


class Column(NamedTuple):
    """One component of all scores: its name (`rule:<name>` for a rule), weight, and hundredths (0-100) by position."""

    name: str
    weight: float
    values: bytes


class ScoreAnswer(NamedTuple):
    """The scorer's answer, by position: the score 0-10 of every node it knows, and `default` for the others.

    `caps` are the most that each node's state of storage allows (0-10). With `dry_run` the scores are recorded only.
    """

    nodes: Sequence[str]
    scores: bytes
    default: int
    caps: bytes = b""
    columns: tuple[Column, ...] = ()
    dry_run: bool = False
