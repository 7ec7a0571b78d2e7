"""A state in force: what counts of a report as it ages, how a node in it is treated, and whose word counts."""

from dataclasses import dataclass
from functools import cache

from leadsman.domain.reasons import Reason
from leadsman.domain.states import Evidence, State, severity
from leadsman.domain.storage_policy import DriverPolicy, Treatment


@dataclass(frozen=True, slots=True, eq=False)
class Health:
    """A state with its reason (None for HEALTHY) and the evidence it rests on.

    Made by `health` only: there is one object for each combination of values, which is why identity is equality.
    """

    state: State
    reason: Reason | None
    evidence: Evidence


@cache
def health(state: State, reason: Reason | None, evidence: Evidence) -> Health:
    """The one Health with these values; the sets are closed, so there are few."""
    return Health(state, None if state is State.HEALTHY else reason, evidence)


STALE = health(State.UNKNOWN, Reason.STALE, Evidence.CONTROL_PLANE)
"""In force on a node that went silent."""

NOT_OBSERVED = health(State.UNKNOWN, Reason.NOT_OBSERVED, Evidence.CONTROL_PLANE)
"""In force where no report says anything."""

HOLDING = frozenset({State.UNHEALTHY, State.NOT_APPLICABLE})
"""States that keep pods off, and hold for a while when their reporter goes silent."""


def effective(last: Health, policy: DriverPolicy, age_s: float) -> Health:
    """What counts of the last reported state `age_s` seconds later.

    A stale state is unknown; one that rejects (unhealthy, not applicable) holds a while longer, because silence is
    no recovery.
    """
    stale_at, hold_until = policy.limits
    if age_s < stale_at or (last.state in HOLDING and age_s < hold_until):
        return last
    return STALE


def treatment(health_now: Health, policy: DriverPolicy) -> Treatment:
    """How a node in this state is treated when a pod needs the storage, policy applied."""
    if health_now.state in HOLDING:
        return Treatment.REJECT
    if health_now.state is not State.UNKNOWN:
        return Treatment.ALLOW
    return policy.stale if health_now.reason is Reason.STALE else policy.unknown


def weak(health_now: Health) -> bool:
    """Whether no data path speaks for it, only the control plane or silence: an open breaker keeps that from rejecting.

    NOT_APPLICABLE is not weak: where a driver is not meant to be, its volumes cannot be mounted.
    """
    if health_now.state is State.UNHEALTHY:
        return health_now.evidence is Evidence.CONTROL_PLANE
    return health_now.state is State.UNKNOWN


def prevailing(one: Health, other: Health) -> Health:
    """What counts where two reporters of a node speak of one thing: the worse of what is known.

    Each sees what the other cannot (an agent that a driver is not registered, its sidecar that a volume hangs), so good
    news of one does not refute bad news of the other. What keeps pods off is worse than what does not: not applicable
    before degraded. UNKNOWN is no news at all, so it counts only where nobody knows more: otherwise one of them that
    restarts, or is uninstalled and turns stale, would make the fresh word of the other worthless.
    """
    return one if _weight(one) >= _weight(other) else other


def _weight(one: Health) -> tuple[bool, bool, int, bool, bool, str]:
    """Ends with what only makes every replica choose alike: data path first, then who still speaks, then the name."""
    return (
        one.state is not State.UNKNOWN,
        one.state in HOLDING,
        severity(one.state),
        one.evidence is Evidence.DATA_PATH,
        one.reason is not Reason.STALE,
        one.reason or "",
    )
