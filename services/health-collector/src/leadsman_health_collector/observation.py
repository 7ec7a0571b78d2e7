"""What a single look of a probe says, before any threshold."""

from dataclasses import dataclass
from enum import StrEnum

from leadsman.domain.reasons import Reason


class Kind(StrEnum):
    """The probes that judge storage; also their metric label and their name in the configuration."""

    PLUGIN = "csi_plugin"
    REGISTRATION = "registration"
    STORAGE_HEALTH = "csi_storage_health"
    VOLUME_HEALTH = "csi_volume_health"
    TCP = "tcp_endpoint"
    PROTOCOL = "protocol_ping"
    NAME = "name_resolution"
    MOUNT = "mount_liveness"
    FLAGS = "mount_flags"
    PATHS = "device_paths"
    CANARY = "canary_io"
    CAPACITY = "capacity"
    PRESSURE = "io_pressure"
    KERNEL = "kernel_support"


class Outcome(StrEnum):
    """What one look found.

    `IMPAIRED` works, but not as it should (some paths down, almost full). `ABSENT` (nothing listens or nothing is
    registered: perhaps a restart) and `REMOVED` (nor is there a place for it: perhaps uninstalled) are definite
    failures like `ERROR`. `NOT_RUN` means that the look itself failed; it says nothing about storage.
    """

    GOOD = "good"
    IMPAIRED = "impaired"
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
