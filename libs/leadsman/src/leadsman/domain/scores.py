"""A node's score for a pod: 0 (last resort) to 10 (best); how its parts come together.

The components are what `leadsman.domain.curves` and the rules that prefer say, in whole hundredths, so that whoever
reads the breakdown of a decision can work out the same score:

    base  = weighted mean of the components / 10   (an unknown component counts as 40 hundredths; 10 without weights)
    score = floor(min(base, cap) + 0.5)

The cap is the most that the state of the storage in force allows:

| state in force                                        | cap |
| ----------------------------------------------------- | --- |
| HEALTHY                                               | 10  |
| UNKNOWN, or no report                                 | 5; where policy penalizes it 1, where policy rejects it 0 |
| DEGRADED                                              | 3   |
| would be rejected, but a breaker is open              | 1   |
| UNHEALTHY, NOT_APPLICABLE                             | 0   |

A need is capped by the worse of its backend and its driver, as far as the node's reports list them, and a pod with
several needs by the worst of them, because it runs only where all of them work. Bad volumes do not count: a degraded
one lowers no score, and nodes with an unhealthy one are the filter's to reject.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from math import fsum
from operator import getitem

from leadsman.domain.breaker import suppressed
from leadsman.domain.health import Health, treatment, weak
from leadsman.domain.health_index import levels
from leadsman.domain.policy import Rule
from leadsman.domain.report import StorageKey
from leadsman.domain.requirements import Needs
from leadsman.domain.states import State
from leadsman.domain.storage_policy import DriverPolicy, StoragePolicy, Treatment
from leadsman.domain.verdicts import UNKNOWN_VALUE

MAX_SCORE = 10
"""kube-scheduler's upper end for an extender (`MaxExtenderPriority`)."""

NEUTRAL = 40
"""Hundredths that an unknown component counts as: not worth avoiding, and no match for a node known to be well."""

BREAKER_CAP = 1
"""Cap of a node that only an open breaker keeps from being rejected."""

RULE_COLUMN = "rule:"
"""Begins the name of a rule's column."""

SHADOW_COLUMN = " (shadow)"
"""Ends the name of a column that shows the weight it would have, and does not count."""

_BY_STATE = {State.HEALTHY: MAX_SCORE, State.DEGRADED: 3, State.NOT_APPLICABLE: 0, State.UNHEALTHY: 0}
_UNKNOWN = {Treatment.ALLOW: 5, Treatment.PENALIZE: 1, Treatment.REJECT: 0}


def hundredths(value: float) -> int:
    """A component's value (0-1) as it stands in columns."""
    return int(value * 100 + 0.5)


def worst(values: Sequence[int]) -> int:
    """The worst of some hundredths, where an unknown one is as bad as NEUTRAL."""
    known = min(values)
    return UNKNOWN_VALUE if known > NEUTRAL and UNKNOWN_VALUE in values else known


def rule_column(rule: Rule) -> str:
    """Name of the column of a rule that prefers; that of one that is not enforced ends with SHADOW_COLUMN."""
    return f"{RULE_COLUMN}{rule.name}" if rule.enforce else f"{RULE_COLUMN}{rule.name}{SHADOW_COLUMN}"


@lru_cache(maxsize=256)
def _terms(weight: float) -> tuple[float, ...]:
    """What a component with `weight` adds to the sum, by its byte in the column."""
    return tuple([weight * value for value in range(UNKNOWN_VALUE)] + [weight * NEUTRAL])


class Combination:
    """Scores from components with these `weights`.

    Monotone in every value and in the cap, and the same in whatever order the components come: `fsum` is exact.
    """

    def __init__(self, weights: Sequence[float]) -> None:
        self._terms = [_terms(weight) for weight in weights]
        self._per_point = fsum(weights) * 100 / MAX_SCORE

    def score(self, values: Iterable[int], cap: int) -> int:
        """The score for the components' hundredths, in the order of the weights, and the cap."""
        if not self._per_point:
            return cap
        base = fsum(map(getitem, self._terms, values)) / self._per_point
        return int(base + 0.5) if base < cap else cap


def cap_of(health: Health, policy: DriverPolicy, *, breaker_open: bool = False) -> int:
    """The most that a node may score whose storage is in this state, see the table of the module."""
    cap = _UNKNOWN[treatment(health, policy)] if health.state is State.UNKNOWN else _BY_STATE[health.state]
    return BREAKER_CAP if breaker_open and cap < BREAKER_CAP and weak(health) else cap


class Cap:
    """The most that the states of storage let a node score for a pod with `needs`.

    `unlisted` is in force where a node lists nothing of a need, and `open_breakers` are storages whose own breaker is
    open.
    """

    def __init__(
        self, needs: Needs, policy: StoragePolicy, unlisted: Health, open_breakers: Collection[StorageKey]
    ) -> None:
        self._needs = [
            (
                [(key, suppressed(key, open_breakers)) for key in levels(need)],
                policy.of(need.driver),
                [(unlisted, suppressed(need, open_breakers))],
            )
            for need in needs
        ]

    def of(self, states: Mapping[StorageKey, Health]) -> int:
        """The cap of a node with these `states` in force."""
        cap = MAX_SCORE
        for keys, policy, unlisted in self._needs:
            for health, breaker_open in [(states[key], is_open) for key, is_open in keys if key in states] or unlisted:
                if health.state is not State.HEALTHY:  # nearly always it is
                    cap = min(cap, cap_of(health, policy, breaker_open=breaker_open))
        return cap
