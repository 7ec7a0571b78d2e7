"""Health of one (driver, backend) on one node, and what kind of evidence stands behind it."""

from enum import StrEnum


class State(StrEnum):
    """Health of a (driver, backend) as seen from one node.

    Unknown is never read as healthy or as unhealthy; a value that this version does not know is read as UNKNOWN.
    """

    HEALTHY = "HEALTHY"
    DEGRADED = "DEGRADED"
    UNHEALTHY = "UNHEALTHY"
    UNKNOWN = "UNKNOWN"
    NOT_APPLICABLE = "NOT_APPLICABLE"

    @classmethod
    def parse(cls, text: str) -> "State":
        """The state called `text`; UNKNOWN for a name from a newer version."""
        return _STATES.get(text, cls.UNKNOWN)


class Evidence(StrEnum):
    """What a state rests on; only control-plane evidence is subject to the mass-failure breaker."""

    DATA_PATH = "DATA_PATH"
    CONTROL_PLANE = "CONTROL_PLANE"

    @classmethod
    def parse(cls, text: str) -> "Evidence":
        """The evidence class called `text`; CONTROL_PLANE, the weaker one, for an unknown name."""
        return _EVIDENCE.get(text, cls.CONTROL_PLANE)


_STATES = {state.value: state for state in State}
_EVIDENCE = {evidence.value: evidence for evidence in Evidence}
_SEVERITY = {
    State.HEALTHY: 0,
    State.NOT_APPLICABLE: 1,
    State.UNKNOWN: 2,
    State.DEGRADED: 3,
    State.UNHEALTHY: 4,
}


def severity(state: State) -> int:
    """Rank for 'worst level wins': higher is worse for a pod that needs the storage."""
    return _SEVERITY[state]
