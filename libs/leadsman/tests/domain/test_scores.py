"""Scores are whole numbers from 0 to 10, worked out from the columns of the breakdown, and never rise with bad news."""

import itertools
from math import fsum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.domain.health import NOT_OBSERVED, STALE, Health, health
from leadsman.domain.policy import Rule
from leadsman.domain.reasons import Reason, evidence_of
from leadsman.domain.scores import (
    MAX_SCORE,
    NEUTRAL,
    SHADOW_COLUMN,
    Cap,
    Combination,
    cap_of,
    hundredths,
    rule_column,
    worst,
)
from leadsman.domain.states import Evidence, State
from leadsman.domain.storage_policy import DriverPolicy, StoragePolicy, Treatment
from leadsman.domain.verdicts import UNKNOWN_VALUE
from leadsman.testing.reports import storage_key
from leadsman.testing.rules import LabelIs

VALUES = st.one_of(st.integers(0, 100), st.just(UNKNOWN_VALUE))
WEIGHTS = st.one_of(st.just(0.0), st.floats(0.01, 1000, allow_subnormal=False))
PARTS = st.lists(st.tuples(WEIGHTS, VALUES), min_size=1, max_size=12)
CAPS = st.sampled_from([0, 1, 3, 5, 10])
BEST_FIRST = [State.HEALTHY, State.UNKNOWN, State.DEGRADED, State.UNHEALTHY]

HEALTHY = health(State.HEALTHY, None, Evidence.DATA_PATH)
DEGRADED = health(State.DEGRADED, Reason.HIGH_LATENCY, Evidence.DATA_PATH)
PLUGIN_DOWN = health(State.UNHEALTHY, Reason.DRIVER_NOT_RESPONDING, Evidence.CONTROL_PLANE)
HUNG = health(State.UNHEALTHY, Reason.MOUNT_HUNG, Evidence.DATA_PATH)
NOT_HERE = health(State.NOT_APPLICABLE, Reason.DRIVER_NOT_REGISTERED, Evidence.CONTROL_PLANE)
STARTING = health(State.UNKNOWN, Reason.DRIVER_STARTING, evidence_of(Reason.DRIVER_STARTING))

NFS, NFS_A, SMB = storage_key("nfs"), storage_key("nfs/a"), storage_key("smb")


def score(parts: list[tuple[float, int]], cap: int = MAX_SCORE) -> int:
    return Combination([weight for weight, _ in parts]).score([value for _, value in parts], cap)


def effective(value: int) -> int:
    return NEUTRAL if value == UNKNOWN_VALUE else value


def test_the_worked_example_of_the_document() -> None:
    """docs/scoring.md works this one out by hand."""
    parts = [(3.0, 50), (2.0, 100), (1.0, 82), (1.0, 100), (1.0, UNKNOWN_VALUE), (2.0, 100)]

    assert [score(parts, cap) for cap in (10, 5, 3)] == [8, 5, 3]


@given(parts=PARTS, cap=CAPS)
def test_a_score_can_be_worked_out_again_from_the_breakdown(parts: list[tuple[float, int]], cap: int) -> None:
    """By the formula of the document: weighted mean, cap, rounding."""
    total = fsum(weight for weight, _ in parts)
    base = fsum(weight * effective(value) for weight, value in parts) / total / 10 if total else 10.0
    found = score(parts, cap)

    assert 0 <= found <= cap
    assert abs(found - min(base, cap)) <= 0.5 + 1e-9


@given(parts=PARTS, cap=CAPS, data=st.data())
def test_a_better_component_never_lowers_a_score(parts: list[tuple[float, int]], cap: int, data: st.DataObject) -> None:
    """Whatever its weight and whatever the others are."""
    place = data.draw(st.integers(0, len(parts) - 1))
    weight, value = parts[place]
    better = data.draw(st.integers(effective(value), 100))

    assert score([*parts[:place], (weight, better), *parts[place + 1 :]], cap) >= score(parts, cap)


@given(parts=PARTS, cap=CAPS, data=st.data())
def test_the_order_of_components_does_not_matter(parts: list[tuple[float, int]], cap: int, data: st.DataObject) -> None:
    """Rules may be moved about in the document, and replicas agree to the last bit."""
    assert score(data.draw(st.permutations(parts)), cap) == score(parts, cap)


def test_the_order_of_components_does_not_matter_where_a_plain_sum_would_round_otherwise() -> None:
    """A base of x.5 tells: one order in some thousand comes out below it."""
    parts = [(1.1, 25), (1.1, 20), (1.1, 45), (1.1, 10)]

    assert {score(list(order)) for order in itertools.permutations(parts)} == {3}


@given(weights=st.lists(WEIGHTS, max_size=8), cap=CAPS)
def test_all_at_their_best_are_worth_the_cap(weights: list[float], cap: int) -> None:
    """With any weights, and with none at all."""
    assert score([(weight, 100) for weight in weights], cap) == cap


def test_unknown_is_neutral_low() -> None:
    """Behind what is well, before what is bad."""
    assert [score([(1.0, value)]) for value in (100, UNKNOWN_VALUE, 0)] == [10, 4, 0]


def test_hundredths_are_rounded_to_the_nearest() -> None:
    """A byte for each node and component crosses the hop."""
    assert [hundredths(value) for value in (0.0, 0.004, 0.005, 0.5, 0.996, 1.0)] == [0, 0, 1, 50, 100, 100]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([70], 70),
        ([70, 20], 20),
        ([UNKNOWN_VALUE], UNKNOWN_VALUE),
        ([70, UNKNOWN_VALUE], UNKNOWN_VALUE),
        ([20, UNKNOWN_VALUE], 20),
        ([0, UNKNOWN_VALUE], 0),
    ],
)
def test_an_unknown_need_is_worse_than_a_good_one_and_better_than_a_bad_one(values: list[int], expected: int) -> None:
    """The worst of a pod's needs counts."""
    assert expected == worst(values)
    assert expected == worst(values[::-1])


def test_a_rule_that_is_not_enforced_says_so_in_the_name_of_its_column() -> None:
    """Whoever adds up a breakdown leaves such a column out."""
    rule = Rule("fast", prefer=LabelIs("disk", "nvme"), enforce=False)

    assert rule_column(rule) == f"rule:fast{SHADOW_COLUMN}"


@pytest.mark.parametrize(("one", "expected"), [(HEALTHY, 10), (STARTING, 5), (DEGRADED, 3), (HUNG, 0), (NOT_HERE, 0)])
def test_each_state_has_its_cap(one: Health, expected: int) -> None:
    """The table of the module."""
    assert expected == cap_of(one, DriverPolicy())


@pytest.mark.parametrize(
    ("treatment", "expected"), [(Treatment.ALLOW, 5), (Treatment.PENALIZE, 1), (Treatment.REJECT, 0)]
)
def test_policy_decides_what_unknown_and_stale_are_worth(treatment: Treatment, expected: int) -> None:
    """Each by its own setting."""
    unknown, stale = DriverPolicy(unknown=treatment), DriverPolicy(stale=treatment)

    assert [cap_of(one, unknown) for one in (STARTING, NOT_OBSERVED, STALE)] == [expected, expected, 5]
    assert [cap_of(one, stale) for one in (STARTING, NOT_OBSERVED, STALE)] == [5, 5, expected]


def test_an_open_breaker_lets_what_it_suppresses_score_one() -> None:
    """Broken data paths and drivers that are not there stay at 0; what is better stays as it is."""
    strict = DriverPolicy(unknown=Treatment.REJECT, stale=Treatment.REJECT)
    suppressed = [PLUGIN_DOWN, STARTING, NOT_OBSERVED, STALE]

    assert [cap_of(one, strict, breaker_open=True) for one in suppressed] == [1, 1, 1, 1]
    assert [cap_of(one, strict, breaker_open=True) for one in (HUNG, NOT_HERE, DEGRADED, HEALTHY)] == [0, 0, 3, 10]
    assert cap_of(STARTING, DriverPolicy(), breaker_open=True) == 5


def test_the_worse_of_driver_and_backend_caps() -> None:
    """A healthy server behind a degraded plugin is a degraded storage; what is not listed has no say beside it."""
    cap = Cap((NFS_A,), StoragePolicy(), NOT_OBSERVED, ())

    assert cap.of({NFS: DEGRADED, NFS_A: HEALTHY}) == 3
    assert cap.of({NFS: HEALTHY}) == 10


def test_the_worst_need_of_a_pod_caps() -> None:
    """A node that lists only one of two needed storages is unknown for the other."""
    cap = Cap((NFS_A, SMB), StoragePolicy(), NOT_OBSERVED, ())

    assert [cap.of({NFS: HEALTHY}), cap.of({SMB: HUNG}), cap.of({})] == [5, 0, 5]


def test_a_pod_without_storage_has_no_cap() -> None:
    """No state of any storage touches it."""
    assert Cap((), StoragePolicy(), NOT_OBSERVED, ()).of({NFS: HUNG}) == MAX_SCORE


def test_a_breaker_speaks_for_its_own_driver() -> None:
    """The storage of another is judged as ever; its backends are covered."""
    cap = Cap((NFS_A, SMB), StoragePolicy(), NOT_OBSERVED, {NFS})

    assert cap.of({NFS: PLUGIN_DOWN, SMB: HEALTHY}) == 1
    assert cap.of({NFS: HEALTHY, NFS_A: PLUGIN_DOWN, SMB: HEALTHY}) == 1
    assert cap.of({NFS: HEALTHY, SMB: PLUGIN_DOWN}) == 0


def test_the_breaker_of_a_backend_speaks_for_it_alone() -> None:
    """The driver's plugin is judged as ever; a node that lists nothing counts as one of the backend."""
    strict = StoragePolicy(DriverPolicy(unknown=Treatment.REJECT))
    cap = Cap((NFS_A,), strict, NOT_OBSERVED, {NFS_A})

    assert cap.of({NFS: HEALTHY, NFS_A: PLUGIN_DOWN}) == 1
    assert cap.of({NFS: PLUGIN_DOWN, NFS_A: HEALTHY}) == 0
    assert cap.of({}) == 1
    assert Cap((NFS,), strict, NOT_OBSERVED, {NFS_A}).of({}) == 0


@given(states=st.dictionaries(st.sampled_from([NFS, NFS_A, SMB]), st.sampled_from(BEST_FIRST)), data=st.data())
def test_a_worse_state_never_lifts_a_cap(states: dict[object, State], data: st.DataObject) -> None:
    """Of any storage, with the breaker open or closed."""
    cap = Cap((NFS_A, SMB), StoragePolicy(), NOT_OBSERVED, data.draw(st.sampled_from([(), (NFS,), (NFS_A,)])))
    worse = {key: data.draw(st.sampled_from(BEST_FIRST[BEST_FIRST.index(state) :])) for key, state in states.items()}

    def of(which: dict[object, State]) -> int:
        return cap.of({key: health(state, Reason.DRIVER_STARTING, Evidence.DATA_PATH) for key, state in which.items()})  # type: ignore[misc]

    assert of(worse) <= of(states)
