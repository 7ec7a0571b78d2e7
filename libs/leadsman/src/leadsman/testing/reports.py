"""Node reports in one line each, and an index that holds some."""

from collections.abc import Iterable

from leadsman.domain.changes import ChangeCounter
from leadsman.domain.health_index import HealthIndex
from leadsman.domain.reasons import Reason, evidence_of
from leadsman.domain.report import NodeReport, Sequence, StorageKey, StorageStatus, VolumeStatus
from leadsman.domain.states import Evidence, State
from leadsman.domain.storage_policy import StoragePolicy

_TYPICAL = {
    State.HEALTHY: None,
    State.DEGRADED: Reason.HIGH_LATENCY,
    State.UNHEALTHY: Reason.MOUNT_HUNG,
    State.UNKNOWN: Reason.DRIVER_STARTING,
    State.NOT_APPLICABLE: Reason.DRIVER_NOT_REGISTERED,
}


def storage_key(text: str) -> StorageKey:
    """`driver` or `driver/backend` as a key."""
    driver, _, backend = text.partition("/")
    return StorageKey(driver, backend)


def status(storage: str, state: State, reason: Reason | None = None) -> StorageStatus:
    """`storage` (`driver` or `driver/backend`) in `state`, for a reason typical of the state unless one is given."""
    why = reason or _TYPICAL[state]
    return StorageStatus(storage_key(storage), state, why, evidence_of(why) if why else Evidence.CONTROL_PLANE)


def volume(text: str, state: State = State.UNHEALTHY, reason: Reason = Reason.STALE_FILE_HANDLE) -> VolumeStatus:
    """The volume `text` (`driver/name`) in `state`."""
    driver, _, name = text.partition("/")
    return VolumeStatus(driver, name, state, reason)


def report(
    node: str,
    *statuses: StorageStatus,
    volumes: Iterable[VolumeStatus] = (),
    scope: str = "",
    seq: int = 1,
    epoch: int = 1,
) -> NodeReport:
    """A report of `node` with `statuses` and bad `volumes`: by its agent, or the sidecar of the driver `scope`."""
    return NodeReport(node, Sequence(epoch, seq), 10.0, statuses, bad_volumes=tuple(volumes), scope=scope)


def index_of(policy: StoragePolicy | None = None, **nodes: list[StorageStatus]) -> HealthIndex:
    """An index that has just heard of `nodes`, each by name with what it lists."""
    index = HealthIndex(policy or StoragePolicy(), ChangeCounter())
    for node, statuses in nodes.items():
        index.apply(report(node, *statuses), 0, 0)
    return index
