"""The storage policy says what unknown and silent mean, per driver."""

from collections.abc import Callable

import pytest

from leadsman.domain.errors import ConfigError
from leadsman.domain.storage_policy import DriverPolicy, StoragePolicy, Treatment


def test_a_driver_without_its_own_policy_gets_the_default() -> None:
    """`of` falls back to the default, whose values are those of the design."""
    strict = DriverPolicy(unknown=Treatment.REJECT)
    policy = StoragePolicy(drivers={"ebs.csi.aws.com": strict})

    assert strict is policy.of("ebs.csi.aws.com")
    assert DriverPolicy(Treatment.ALLOW, Treatment.ALLOW, 30.0, 300.0) == policy.of("nfs.csi.k8s.io")
    assert policy.bus_frozen_max_age_s == 900.0


def test_age_limits_are_all_ages_at_which_something_can_change() -> None:
    """Turning stale and the end of the hold, of every driver, ascending and without repeats."""
    policy = StoragePolicy(drivers={"a": DriverPolicy(stale_after_s=60), "b": DriverPolicy(hold_unhealthy_s=0)})

    assert policy.age_limits() == (30.0, 60, 330.0, 360.0)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: DriverPolicy(stale_after_s=0), "staleAfter"),
        (lambda: DriverPolicy(hold_unhealthy_s=-1), "holdUnhealthy"),
        (lambda: StoragePolicy(bus_frozen_max_age_s=-1), "busFrozen.maxAge"),
    ],
)
def test_a_duration_that_cannot_work_is_refused_by_name(make: Callable[[], object], word: str) -> None:
    """The error names the field as operators write it."""
    with pytest.raises(ConfigError, match=word):
        make()
