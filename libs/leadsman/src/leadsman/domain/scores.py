"""A node's score for a pod: 0 (last resort) to 10 (best), from the states of the storage that the pod needs.

| state in force                | score |
| ----------------------------- | ----- |
| HEALTHY                       | 10    |
| UNKNOWN, or no report         | 5; where policy penalizes it 1, where policy rejects it 0 |
| DEGRADED                      | 3     |
| UNHEALTHY, NOT_APPLICABLE     | 0     |

A need scores as the worse of its backend and its driver, as far as the node's report lists them; a pod with several
needs scores as the worst of them, because it runs only where all of them work. Bad volumes do not count: a degraded
one lowers no score, and nodes with an unhealthy one are the filter's to reject.
"""

from leadsman.domain.health import Health
from leadsman.domain.health_index import HealthIndex, levels
from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman.domain.states import State
from leadsman.domain.storage_policy import DriverPolicy, Treatment
from leadsman.domain.verdicts import ScoreAnswer

MAX_SCORE = 10
"""kube-scheduler's upper end for an extender (`MaxExtenderPriority`)."""

_BY_STATE = {State.HEALTHY: MAX_SCORE, State.DEGRADED: 3, State.NOT_APPLICABLE: 0, State.UNHEALTHY: 0}
_UNKNOWN = {Treatment.ALLOW: 5, Treatment.PENALIZE: 1, Treatment.REJECT: 0}


def score_of(health: Health, policy: DriverPolicy) -> int:
    """The score of storage in this state."""
    if health.state is not State.UNKNOWN:
        return _BY_STATE[health.state]
    return _UNKNOWN[policy.stale if health.reason is Reason.STALE else policy.unknown]


def score_answer(index: HealthIndex, needs: tuple[StorageKey, ...]) -> ScoreAnswer:
    """The answer for a pod with `needs`: a score for every node that lists some of them, and one for the rest."""
    scores: dict[str, int] = {}
    for key in {key for need in needs for key in levels(need)}:
        scores |= dict.fromkeys(index.in_state(key, State.HEALTHY), MAX_SCORE)
    for need in needs:
        _lower(index, need, scores)
    default = MAX_SCORE
    for need in needs:
        unlisted = score_of(index.unlisted, index.policy.of(need.driver))
        default = min(default, unlisted)
        for node in scores.keys() - index.listed(need):  # listed for another need only
            scores[node] = min(scores[node], unlisted)
    return ScoreAnswer(scores, default)


def _lower(index: HealthIndex, need: StorageKey, scores: dict[str, int]) -> None:
    """Bring the nodes down whose storage for `need` is less than healthy."""
    policy = index.policy.of(need.driver)
    for key in levels(need):
        for state in State:
            if state is not State.HEALTHY:
                for node, health in index.in_state(key, state).items():
                    scores[node] = min(scores.get(node, MAX_SCORE), score_of(health, policy))
