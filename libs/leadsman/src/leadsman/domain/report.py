"""What a collector says about its node at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from leadsman.domain.reasons import Reason
from leadsman.domain.states import Evidence, State


class StorageKey(NamedTuple):
    """The unit of health. An empty backend stands for the driver itself (its plugin on the node)."""

    driver: str
    backend: str = ""

    def __str__(self) -> str:
        return f"{self.driver}/{self.backend}" if self.backend else self.driver


class VolumeKey(NamedTuple):
    """One PersistentVolume by name, and the driver that serves it; equal to a StorageKey of the same two words."""

    driver: str
    volume: str

    def __str__(self) -> str:
        return f"{self.driver} volume {self.volume}"


class StorageStatus(NamedTuple):
    """State of one (driver, backend) on one node.

    `reason` is None only for HEALTHY. `since_epoch_s` is when the state began by the node's clock (seconds since
    1970); it informs people, no decision compares it with our clock. `latency_s` is how long a look takes on average.
    `used` and `inodes_used` are the shares (0-1) of space and inodes in use on its fullest filesystem on this node.
    Of a driver (no backend): `attach_limit` is how many volumes it can attach to this node, `attached` how many are.
    """

    # A named tuple, because every report makes some ten of these and a frozen dataclass takes four times as long.

    key: StorageKey
    state: State
    reason: Reason | None = None
    evidence: Evidence = Evidence.CONTROL_PLANE
    message: str = ""
    since_epoch_s: float = 0.0
    latency_s: float | None = None
    used: float | None = None
    inodes_used: float | None = None
    attach_limit: int | None = None
    attached: int | None = None


class VolumeStatus(NamedTuple):
    """One volume on one node that is not well although its backend may be.

    `volume` is the PersistentVolume's name, as in a pod's requirement. UNHEALTHY keeps pods that need this volume off
    the node; DEGRADED informs. `since_epoch_s` is by the node's clock, in seconds since 1970.
    """

    driver: str
    volume: str
    state: State
    reason: Reason
    message: str = ""
    since_epoch_s: float = 0.0


class Sequence(NamedTuple):
    """Order of a node's reports: collector start (ms since 1970), then a counter. Compared as a pair."""

    epoch: int
    seq: int


@dataclass(frozen=True, slots=True)
class ProbeContext:
    """The trace context of the probe that produced a report, for span links (hex ids, W3C flags)."""

    trace_id: str
    span_id: str
    flags: int = 0


def node_of(reporter: str) -> str:
    """The node that a reporter of this name (`NodeReport.reporter`) speaks for."""
    return reporter.partition("/")[0]


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One node's storage as its collector sees it.

    `scope` is empty for the node's agent. A collector beside a single driver's node plugin (a sidecar) names that
    driver there and may speak of nothing else; several such reports make up the node's storage.
    `interval_s` is the heartbeat period that the collector keeps; `sent_epoch_s` is informational only: age is
    measured by the receiver, never by comparing clocks.
    """

    node: str
    sequence: Sequence
    interval_s: float
    storages: tuple[StorageStatus, ...]
    node_uid: str = ""
    boot_id: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, float | str] = field(default_factory=dict)
    sent_epoch_s: float = 0.0
    probe: ProbeContext | None = None
    bad_volumes: tuple[VolumeStatus, ...] = ()
    scope: str = ""

    @property
    def reporter(self) -> str:
        """Who speaks: the node's name for its agent, `node/driver` for the sidecar of a driver."""
        return f"{self.node}/{self.scope}" if self.scope else self.node
