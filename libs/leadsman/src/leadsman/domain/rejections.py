"""What storage says of a pod's needs: which nodes it must be kept off, and why.

One node gets one reason, chosen the same way on every replica: unhealthy before not applicable before unknown
(where policy rejects it); then the first driver in name order; within a driver the backend's reason before the
driver's own, since it is the more exact one and mostly rests on the data path; then the first backend in name order.

While the breaker of a backend or of its driver is open (`leadsman.domain.breaker`), weak evidence about the backend
gives no reason, and nodes that list nothing of it pass.

A volume that is bad by itself gives its reason only to nodes that nothing wider rejects.
"""

from collections.abc import Iterable
from functools import lru_cache

from leadsman.domain.health import NOT_OBSERVED, STALE, Health
from leadsman.domain.health_index import HealthIndex, levels
from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey, VolumeKey
from leadsman.domain.requirements import Requirement
from leadsman.domain.states import State
from leadsman.domain.verdicts import FilterAnswer, Rejection

_RANKS = (State.UNKNOWN, State.NOT_APPLICABLE, State.UNHEALTHY)
"""From the weakest to the strongest reason."""

_rejection = lru_cache(maxsize=4096)(Rejection)


def reject(health: Health, driver: str) -> Rejection:
    """The rejection of a node in this state."""
    if health.state is State.NOT_APPLICABLE:
        return _rejection(Reason.DRIVER_NOT_REGISTERED, driver)
    return _rejection(health.reason or Reason.UNRECOGNISED, driver)


def volume_rejections(index: HealthIndex, volumes: Iterable[Requirement]) -> dict[str, Rejection]:
    """Nodes on which one of `volumes` is bad, without those that its unhealthy storage rejects anyway.

    One node gets one reason: unhealthy before unknown, then the first driver and the first volume in name order.
    """
    unhealthy: dict[str, Rejection] = {}
    unknown: dict[str, Rejection] = {}
    for need in sorted(set(volumes), reverse=True):  # the first name has the last word
        refusing = index.refusing(VolumeKey(need.driver, need.volume))
        # When a server dies, its volumes are bad on every node: thousands of names that the answer has already.
        broken = set[str]().union(*[_broken(index, key) for key in levels(need.key)])
        judged = {health: reject(health, need.driver) for health in set(refusing.values())}
        for node, health in refusing.items():
            if node not in broken:
                (unhealthy if health.state is State.UNHEALTHY else unknown)[node] = judged[health]
    return unknown | unhealthy


def storage_answer(index: HealthIndex, needs: tuple[StorageKey, ...]) -> FilterAnswer:
    """What the storages that a pod `needs` say of every node; single volumes and the policy's rules come on top."""
    rejected: dict[str, Rejection] = {}
    weakest_first = _by_precedence(needs)[::-1]
    for state in _RANKS:
        for key in weakest_first:
            rejected |= rejecting(index, key, state)
    required = [need for need in sorted(needs) if index.rejects(need, index.unlisted)]
    if not required:
        return FilterAnswer(rejected)
    return _allowed_only(index, required, rejected)


def rejecting(index: HealthIndex, key: StorageKey, state: State) -> dict[str, Rejection]:
    """Nodes that list `key` in `state` and are rejected for it."""
    if state is State.UNKNOWN and not _rejects_unknown(index, key):
        return {}
    nodes = index.in_state(key, state)
    judged = {health: reject(health, key.driver) for health in set(nodes.values()) if index.rejects(key, health)}
    return {node: judged[health] for node, health in nodes.items() if health in judged} if judged else {}


def _broken(index: HealthIndex, key: StorageKey) -> Iterable[str]:
    """Nodes that are rejected as unhealthy in `key`."""
    if index.breaker_open(key):
        return rejecting(index, key, State.UNHEALTHY)
    return index.in_state(key, State.UNHEALTHY)


def _rejects_unknown(index: HealthIndex, key: StorageKey) -> bool:
    return index.rejects(key, NOT_OBSERVED) or index.rejects(key, STALE)


def _by_precedence(needs: tuple[StorageKey, ...]) -> list[StorageKey]:
    keys = {key for need in needs for key in levels(need)}
    return sorted(keys, key=lambda key: (key.driver, not key.backend, key.backend))


def _allowed_only(index: HealthIndex, required: list[StorageKey], rejected: dict[str, Rejection]) -> FilterAnswer:
    """The form for drivers whose unknown nodes are rejected: nodes must be named to pass."""
    first = required[0]
    allowed = index.listed(first)
    for need in required[1:]:
        for node in allowed - index.listed(need):
            rejected.setdefault(node, reject(index.unlisted, need.driver))
    return FilterAnswer(rejected, frozenset(allowed - rejected.keys()), reject(index.unlisted, first.driver))
