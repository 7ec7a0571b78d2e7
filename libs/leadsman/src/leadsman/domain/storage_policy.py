"""What the operator wants done about storage whose state is unknown or out of date, per driver."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from leadsman.domain.errors import ConfigError


class Treatment(StrEnum):
    """What happens to a node whose state is not known: it passes, passes with a low score, or is kept off."""

    ALLOW = "allow"
    PENALIZE = "penalize"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class DriverPolicy:
    """Treatment of one driver.

    `unknown` is for storage that no probe could judge or no report lists, `stale` for a node that went silent. A
    report turns stale at the age `stale_after_s`; keep it at three heartbeats of the collector or more. A state
    that rejects holds for `hold_unhealthy_s` beyond that, since silence must never turn a bad node good.

    Raises:
        ConfigError: a duration that cannot work.
    """

    unknown: Treatment = Treatment.ALLOW
    stale: Treatment = Treatment.ALLOW
    stale_after_s: float = 30.0
    hold_unhealthy_s: float = 300.0

    def __post_init__(self) -> None:
        if self.stale_after_s <= 0:
            raise ConfigError("staleAfter must be longer than 0; three heartbeats of the collector (30s) is usual")
        if self.hold_unhealthy_s < 0:
            raise ConfigError("holdUnhealthy must not be negative; 0s drops an unhealthy state as soon as it is stale")

    @property
    def limits(self) -> tuple[float, float]:
        """Ages in seconds at which an effective state can change: turning stale, and the end of the hold."""
        return self.stale_after_s, self.stale_after_s + self.hold_unhealthy_s


@dataclass(frozen=True, slots=True)
class BreakerPolicy:
    """When a mass of bad verdicts is taken for a failure of monitoring and not of storage.

    The breaker of a driver, or of one of its backends, opens when, of at least `min_nodes` nodes that have it, more
    than `share` (0-1) would be rejected for it on control-plane evidence alone. A share of 1 never opens it.

    Raises:
        ConfigError: a number that cannot work.
    """

    share: float = 0.8
    min_nodes: int = 5

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ConfigError("breaker.share must be more than 0 and at most 1; 1 never opens the breaker")
        if self.min_nodes < 1:
            raise ConfigError("breaker.minNodes must be 1 or more")


@dataclass(frozen=True, slots=True)
class StoragePolicy:
    """Treatment of every driver: `default`, and `drivers` for those that differ from it.

    While NATS is out of reach the last known states stand for `bus_frozen_max_age_s`; then all are unknown.

    Raises:
        ConfigError: a duration that cannot work.
    """

    default: DriverPolicy = field(default_factory=DriverPolicy)
    drivers: Mapping[str, DriverPolicy] = field(default_factory=dict)
    bus_frozen_max_age_s: float = 900.0
    breaker: BreakerPolicy = field(default_factory=BreakerPolicy)

    def __post_init__(self) -> None:
        if self.bus_frozen_max_age_s < 0:
            raise ConfigError("busFrozen.maxAge must not be negative; 0s forgets all states as soon as NATS is lost")

    def of(self, driver: str) -> DriverPolicy:
        """The policy of `driver`."""
        return self.drivers.get(driver, self.default)

    def age_limits(self) -> tuple[float, ...]:
        """Every age in seconds at which some effective state can change, ascending."""
        policies = [self.default, *self.drivers.values()]
        return tuple(sorted({limit for policy in policies for limit in policy.limits}))
