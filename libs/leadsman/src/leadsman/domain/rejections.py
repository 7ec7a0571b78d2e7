"""The filter's answer to a set of needs: which nodes a pod must be kept off, and why.

One node gets one reason, chosen the same way on every replica: unhealthy before not applicable before unknown
(where policy rejects it); then the first driver in name order; within a driver the backend's reason before the
driver's own, since it is the more exact one and mostly rests on the data path; then the first backend in name order.
"""

from functools import lru_cache

from leadsman.domain.health_index import Health, HealthIndex, levels, treatment
from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman.domain.states import State
from leadsman.domain.storage_policy import Treatment
from leadsman.domain.verdicts import FilterAnswer, Rejection

_RANKS = (State.UNKNOWN, State.NOT_APPLICABLE, State.UNHEALTHY)
"""From the weakest to the strongest reason."""

_rejection = lru_cache(maxsize=4096)(Rejection)


def reject(health: Health, driver: str) -> Rejection:
    """The rejection of a node in this state."""
    if health.state is State.NOT_APPLICABLE:
        return _rejection(Reason.DRIVER_NOT_REGISTERED, driver)
    return _rejection(health.reason or Reason.UNRECOGNISED, driver)


def filter_answer(index: HealthIndex, needs: tuple[StorageKey, ...]) -> FilterAnswer:
    """The answer for a pod with `needs`, for every node."""
    rejected: dict[str, Rejection] = {}
    for state in _RANKS:
        for key in reversed(_by_precedence(needs)):
            _add(index, key, state, rejected)
    required = [need for need in sorted(needs) if _rejects_unlisted(index, need)]
    if not required:
        return FilterAnswer(rejected)
    return _allowed_only(index, required, rejected)


def _by_precedence(needs: tuple[StorageKey, ...]) -> list[StorageKey]:
    keys = {key for need in needs for key in levels(need)}
    return sorted(keys, key=lambda key: (key.driver, not key.backend, key.backend))


def _add(index: HealthIndex, key: StorageKey, state: State, rejected: dict[str, Rejection]) -> None:
    policy = index.policy.of(key.driver)
    if state is State.UNKNOWN and Treatment.REJECT not in (policy.unknown, policy.stale):
        return
    for node, health in index.in_state(key, state).items():
        if treatment(health, policy) is Treatment.REJECT:
            rejected[node] = reject(health, key.driver)


def _rejects_unlisted(index: HealthIndex, need: StorageKey) -> bool:
    return treatment(index.unlisted, index.policy.of(need.driver)) is Treatment.REJECT


def _allowed_only(index: HealthIndex, required: list[StorageKey], rejected: dict[str, Rejection]) -> FilterAnswer:
    """The form for drivers whose unknown nodes are rejected: nodes must be named to pass."""
    first = required[0]
    allowed = index.listed(first)
    for need in required[1:]:
        listed = index.listed(need)
        for node in allowed - listed:
            rejected.setdefault(node, reject(index.unlisted, need.driver))
        allowed &= listed
    return FilterAnswer(rejected, frozenset(allowed - rejected.keys()), reject(index.unlisted, first.driver))
