"""How fast a run goes: the collector's period and deadline, and what becomes of the table's times with them."""

import dataclasses
from dataclasses import dataclass

from leadsman_faults.row import TABLE_PERIOD_S


@dataclass(frozen=True, slots=True)
class Pace:
    """The collector's options in seconds.

    `slack_s` is granted on top of every scaled limit, for what does not scale: a report may wait a second for the
    one before it (`leadsman.bus.publish.MIN_GAP_S`), and starting a worker takes as long as it takes.
    """

    period_s: float
    deadline_s: float
    heartbeat_s: float
    flap_hold_s: float
    flap_max_hold_s: float
    slack_s: float

    def seconds(self, at_table_period: float) -> float:
        """A time of the table, at this pace."""
        return at_table_period * self.period_s / TABLE_PERIOD_S

    def limit(self, at_table_period: float) -> float:
        """A limit of the table, at this pace."""
        return self.seconds(at_table_period) + self.slack_s


SHIPPED = Pace(period_s=10.0, deadline_s=3.0, heartbeat_s=10.0, flap_hold_s=300.0, flap_max_hold_s=1800.0, slack_s=1.0)
"""The collector's defaults."""

SHORT = Pace(period_s=1.0, deadline_s=0.4, heartbeat_s=2.0, flap_hold_s=8.0, flap_max_hold_s=8.0, slack_s=4.0)
"""For `make test`: ten times as fast, on a machine that may be busy with other tests."""


def with_period(period_s: float) -> Pace:
    """A pace between those two, its deadline the same share of the period as shipped."""
    if period_s == SHIPPED.period_s:
        return SHIPPED
    share = period_s / SHIPPED.period_s
    return dataclasses.replace(
        SHIPPED,
        period_s=period_s,
        deadline_s=SHIPPED.deadline_s * share,
        flap_hold_s=SHIPPED.flap_hold_s * share,
        flap_max_hold_s=SHIPPED.flap_max_hold_s * share,
        slack_s=SHORT.slack_s,
    )
