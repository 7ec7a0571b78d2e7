"""The Node condition `leadsman.dev/StorageReady`: what a node's storages amount to. Pure.

Readiness polarity, as `Ready`: True is good. A namespaced type keeps clear of the `StorageReady` of other agents.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageStatus
from leadsman.domain.states import State
from leadsman_health_collector.kube.notices import HEALTHY_REASON, printable

CONDITION = "leadsman.dev/StorageReady"

SEVERAL_REASONS = "StorageUnhealthy"
"""Reason when storages are UNHEALTHY for different ones."""

MAX_LISTED = 8
"""Storages named in the message; their number tells the rest."""

_MAX_MESSAGE_BYTES = 1024

_STATUS = {State.UNHEALTHY: "False", State.UNKNOWN: "Unknown", State.DEGRADED: "True"}
_WORST_FIRST = (State.UNHEALTHY, State.UNKNOWN, State.DEGRADED)


class Condition(NamedTuple):
    """What the condition says; times are the writer's."""

    status: str
    reason: str
    message: str


def condition_of(statuses: Iterable[StorageStatus]) -> Condition:
    """False if any storage is UNHEALTHY, else Unknown if any is UNKNOWN, else True: pods may use DEGRADED storage.

    The message names storages and reasons and nothing that changes by itself, so that it is written seldom.
    """
    by_state: dict[State, list[StorageStatus]] = {state: [] for state in _WORST_FIRST}
    used = False
    for status in statuses:
        used = used or status.state is not State.NOT_APPLICABLE
        if status.state in by_state:
            by_state[status.state].append(status)
    troubled = {state: found for state, found in by_state.items() if found}
    if not troubled:
        words = "every storage of this node is HEALTHY" if used else "this node has no storage to look at"
        return Condition("True", HEALTHY_REASON, words)
    worst = next(iter(troubled))
    message = "; ".join(_listed(state, found) for state, found in troubled.items())
    return Condition(_STATUS[worst], _reason(troubled[worst]), printable(message, _MAX_MESSAGE_BYTES))


def _reason(statuses: Sequence[StorageStatus]) -> str:
    reasons = {status.reason or Reason.UNRECOGNISED for status in statuses}
    if len(reasons) == 1:
        return reasons.pop().value
    return SEVERAL_REASONS if statuses[0].state is State.UNHEALTHY else min(reasons).value


def _listed(state: State, statuses: Sequence[StorageStatus]) -> str:
    named = [f"{one.key} ({one.reason or Reason.UNRECOGNISED})" for one in sorted(statuses, key=lambda one: one.key)]
    more = f" and {len(named) - MAX_LISTED} more" if len(named) > MAX_LISTED else ""
    return f"{state}: {', '.join(named[:MAX_LISTED])}{more}"
