"""What a single look of a probe says, before any threshold."""

from dataclasses import dataclass
from enum import StrEnum

from leadsman.domain.reasons import Reason


class Kind(StrEnum):
    """The probes; also their metric label."""

    PLUGIN = "csi_plugin"
    ENDPOINT = "tcp_endpoint"
    MOUNT = "mount_liveness"


class Outcome(StrEnum):
    """What one look found.

    `ABSENT` (nothing listens: perhaps a restart) and `REMOVED` (nor is there a place to listen: perhaps uninstalled)
    are definite failures like `ERROR`. `NOT_RUN` means that the look itself failed; it says nothing about storage.
    """

    GOOD = "good"
    STARTING = "starting"
    ABSENT = "absent"
    REMOVED = "removed"
    ERROR = "error"
    TIMEOUT = "timeout"
    NOT_RUN = "not_run"


DEFINITE = frozenset({Outcome.ABSENT, Outcome.REMOVED, Outcome.ERROR})
"""Failures that are stated by the other side or by the kernel, in contrast to silence."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One look: its outcome, the reason if it was not good, words for people, and how long it took in seconds."""

    outcome: Outcome
    reason: Reason | None = None
    message: str = ""
    latency_s: float | None = None


def not_run(why: str) -> Observation:
    """A look that could not be had."""
    return Observation(Outcome.NOT_RUN, message=why)
