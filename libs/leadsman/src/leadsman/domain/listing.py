"""What one report lists, by key: the worst word of each storage, and the volumes that may turn pods away."""

from collections.abc import Iterable

from leadsman.domain.health import Health, health, prevailing
from leadsman.domain.reasons import evidence_of
from leadsman.domain.report import StorageKey, StorageStatus, VolumeKey, VolumeStatus
from leadsman.domain.states import State, severity

_HARMLESS = frozenset({State.HEALTHY, State.DEGRADED})


def listed_states(storages: Iterable[StorageStatus]) -> dict[StorageKey, Health]:
    """The states of one report by key; of two entries for one key the worse counts."""
    found: dict[StorageKey, Health] = {}
    for status in storages:
        one = health(status.state, status.reason, status.evidence)
        other = found.get(status.key)
        if other is None or severity(one.state) > severity(other.state):
            found[status.key] = one
    return found


def bad_volumes(volumes: Iterable[VolumeStatus]) -> dict[VolumeKey, Health]:
    """The volumes of one report that may turn pods away."""
    found: dict[VolumeKey, Health] = {}
    for status in volumes:
        if status.state in _HARMLESS:
            continue
        # No other state is meant for a volume, so whatever else stands there is no knowledge of it.
        state = State.UNHEALTHY if status.state is State.UNHEALTHY else State.UNKNOWN
        one = health(state, status.reason, evidence_of(status.reason))
        key = VolumeKey(status.driver, status.volume)
        other = found.get(key)
        found[key] = one if other is None else prevailing(one, other)
    return found
