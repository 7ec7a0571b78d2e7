"""What a CSI driver says of its storage, put into one observation. Pure."""

from collections.abc import Sequence

from leadsman_health_collector.csi_client import shown
from leadsman_health_collector.observation import Observation, Outcome


def worst_of(found: Sequence[Observation]) -> Observation:
    """The worst of the adverse conditions that an answer lists, counting the others; good if it lists none."""
    if not found:
        return Observation(Outcome.GOOD)
    worst = next((one for one in found if one.outcome is Outcome.ERROR), found[0])
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return Observation(worst.outcome, worst.reason, worst.message + more)


def in_words(*parts: str) -> str:
    """Status, reason and message of a driver as part of a message; empty ones are left out."""
    return ": ".join(filter(None, map(shown, parts)))
