"""How long a call may wait for what is behind the gateway."""

import pytest

from leadsman.domain.verdicts import FilterAnswer
from leadsman.testing.clock import FakeClock
from leadsman_gateway.extender import Extender
from leadsman_gateway.hop.answers import FilterTable

BODY = b'{"Pod":{"spec":{"volumes":[{"name":"data","csi":{"driver":"nfs.csi.k8s.io"}}]}},"NodeNames":["a"]}'


@pytest.mark.parametrize(
    ("deadline_s", "read_s", "left_s"),
    [(0.8, 0.0, 0.8), (0.8, 0.5, 0.3), (0.8, 0.7, 0.25), (0.8, 5.0, 0.25), (0.1, 5.0, 0.1)],
)
async def test_slow_body_leaves_time_for_the_filter(bench, deadline_s, read_s, left_s):
    """The deadline counts from the arrival, but a quarter of a second, or all of a shorter one, is always left."""
    one, clock = bench(answer=FilterTable(FilterAnswer({}))), FakeClock()
    extender = Extender(one.decider, deadline_s=deadline_s, clock=clock, metrics=one.metrics)
    arrived = clock.monotonic()
    clock.advance(read_s)

    await extender.filter(BODY, arrived)

    assert [deadline - clock.monotonic() for deadline in one.hop.deadlines] == [pytest.approx(left_s)]
