"""The collector's options, checked."""

from dataclasses import dataclass
from pathlib import Path

from leadsman.bus.connect import BusSettings
from leadsman.domain.durations import format_duration
from leadsman.domain.errors import ConfigError
from leadsman.runtime.options import Address

MOUNT_DEADLINE = 5 / 3
"""Mounts get more time than sockets: 5 s against 3 s with the defaults (facts: storage-health 3.1)."""

NAME_DEADLINE = 4 / 3
"""So do resolvers: 4 s."""

SLOW_DEADLINE = 10 / 3
"""And what a driver is asked about its storage, and canaries: 10 s."""


@dataclass(frozen=True, slots=True)
class Roots:
    """Where the host's own files are; a container sees them elsewhere, and tests have trees of their own."""

    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    modules: Path = Path("/lib/modules")


@dataclass(frozen=True, slots=True)
class Sidecar:
    """The single driver that a collector in that driver's own pod watches, and its socket there."""

    driver: str
    socket: Path


@dataclass(frozen=True, slots=True)
class LookSettings:
    """What a pass over this machine needs to know; durations in seconds. Without `sidecar` all drivers are watched."""

    kubelet_dir: Path
    mountinfo: Path
    config: Path | None
    period_s: float
    deadline_s: float
    roots: Roots = Roots()
    sidecar: Sidecar | None = None

    def __post_init__(self) -> None:
        if not 0 < self.deadline_s <= self.period_s:
            raise ConfigError(
                f"the probe deadline ({format_duration(self.deadline_s)}) must be above zero and at most the period "
                f"({format_duration(self.period_s)}); lower --probe-deadline or raise --period"
            )

    @property
    def mount_deadline_s(self) -> float:
        """Time that a mount has to answer, less than the time between two looks at it."""
        return min(self.deadline_s * MOUNT_DEADLINE, self.period_s * 0.9)

    @property
    def name_deadline_s(self) -> float:
        """Time that a resolver has."""
        return self.deadline_s * NAME_DEADLINE

    @property
    def slow_deadline_s(self) -> float:
        """Time that a driver has to tell of its storage, or a canary to be written and read."""
        return self.deadline_s * SLOW_DEADLINE


@dataclass(frozen=True, slots=True)
class KubeSettings:
    """What the collector writes to the API server, if there is one."""

    events: bool = True
    node_condition: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that `run` needs; durations in seconds."""

    node: str
    bus: BusSettings
    look: LookSettings
    state_file: Path
    heartbeat_s: float
    admin: Address
    kube: KubeSettings = KubeSettings()
    port_file: Path | None = None
