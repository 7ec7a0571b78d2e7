"""Each component has its documented curve: flat where all is well, then down to 0, never up again."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.domain import curves
from leadsman.domain.node_facts import NodeFacts, StorageFacts
from leadsman.domain.requirements import Near
from leadsman.domain.states import State

Curve = Callable[[float], float | None]


def storage(
    latency_s: float | None = None, used: float | None = None, inodes_used: float | None = None
) -> StorageFacts:
    return StorageFacts(State.HEALTHY, latency_s, used, inodes_used)


def of_fact(curve: Callable[[NodeFacts], float | None], name: str) -> Curve:
    return lambda value: curve(NodeFacts("n1", facts={name: value}))


def of_storage(curve: Callable[[StorageFacts], float | None], name: str) -> Curve:
    return lambda value: curve(storage(**{name: value}))


def of_gpu(share: float) -> float | None:
    return curves.gpu(NodeFacts("n1", facts={"gpu.memoryFreeBytes": share * 8e9, "gpu.memoryTotalBytes": 8e9}))


WORSE_WHEN_MORE: dict[str, Curve] = {
    "latency": of_storage(curves.storage_latency, "latency_s"),
    "used": of_storage(curves.capacity, "used"),
    "inodes": of_storage(curves.capacity, "inodes_used"),
    "pressure": of_fact(curves.io_pressure, "pressure.io.someAvg10"),
    "utilization": of_fact(curves.io_pressure, "disk.utilizationMax"),
}
BETTER_WHEN_MORE: dict[str, Curve] = {
    "cpu": of_fact(curves.cpu, "cpu.idle"),
    "memory": of_fact(curves.memory, "memory.availableShare"),
    "gpu": of_gpu,
}
CURVES = WORSE_WHEN_MORE | BETTER_WHEN_MORE


@pytest.mark.parametrize(
    ("curve", "value", "expected"),
    [
        ("latency", 0.0, 1),
        ("latency", 0.0095, 1),
        ("latency", 0.01, 1),
        ("latency", 10**-1.5, 0.5),
        ("latency", 0.1, 0),
        ("latency", 9.0, 0),
        ("used", 0.7, 1),
        ("used", 0.84, 0.5),
        ("used", 0.98, 0),
        ("inodes", 0.84, 0.5),
        ("pressure", 0.05, 1),
        ("pressure", 0.325, 0.5),
        ("pressure", 0.6, 0),
        ("utilization", 0.5, 1),
        ("utilization", 0.75, 0.5),
        ("utilization", 1.0, 0),
        ("cpu", 0.02, 0),
        ("cpu", 0.26, 0.5),
        ("cpu", 0.5, 1),
        ("memory", 0.03, 0),
        ("memory", 0.165, 0.5),
        ("memory", 0.3, 1),
        ("gpu", 0.0, 0),
        ("gpu", 0.25, 0.5),
        ("gpu", 0.5, 1),
    ],
)
def test_the_ends_and_the_middle_of_every_curve(curve: str, value: float, expected: float) -> None:
    """The table of the module and of docs/scoring.md."""
    assert pytest.approx(expected) == CURVES[curve](value)


@given(curve=st.sampled_from(sorted(CURVES)), values=st.tuples(*[st.floats(0, 2)] * 2).map(sorted))
def test_a_curve_goes_one_way_and_stays_from_0_to_1(curve: str, values: list[float]) -> None:
    """A better number is never worth less."""
    low, high = CURVES[curve](values[0]), CURVES[curve](values[1])
    better, worse = (low, high) if curve in WORSE_WHEN_MORE else (high, low)

    assert better is not None
    assert worse is not None
    assert 0 <= worse <= better <= 1


def test_what_is_not_known_has_no_value() -> None:
    """No fact, no opinion; least of all zero."""
    node, storage = NodeFacts("n1", facts={"cpu.idle": "idle"}), StorageFacts(State.HEALTHY)

    assert [curve(node) for curve in (curves.io_pressure, curves.cpu, curves.memory, curves.gpu)] == [None] * 4
    assert [curve(storage) for curve in (curves.storage_latency, curves.capacity)] == [None] * 2


def test_the_fuller_of_space_and_inodes_counts() -> None:
    """A filesystem without inodes takes no file, whatever space it has."""
    assert curves.capacity(StorageFacts(State.HEALTHY, used=0.1, inodes_used=0.98)) == 0
    assert curves.capacity(StorageFacts(State.HEALTHY, used=0.98, inodes_used=0.1)) == 0


def test_the_pressure_that_tasks_feel_goes_before_how_busy_a_disk_is() -> None:
    """A busy disk on which nobody waits is a well-used one."""
    facts = {"pressure.io.someAvg10": 0.0, "disk.utilizationMax": 1.0}

    assert curves.io_pressure(NodeFacts("n1", facts=facts)) == 1


def test_gpus_whose_driver_does_not_answer_are_worth_nothing() -> None:
    """Their memory is not known then, but that is no neutral news."""
    assert curves.gpu(NodeFacts("n1", facts={"gpu.responding": 0.0})) == 0
    assert curves.gpu(NodeFacts("n1", facts={"gpu.memoryFreeBytes": 0.0, "gpu.memoryTotalBytes": 0.0})) is None


@pytest.mark.parametrize(
    ("zone", "region", "expected"),
    [("a", "eu", 1), ("a", "", 1), ("b", "eu", 0.5), ("", "eu", 0.5), ("b", "us", 0), ("b", "", 0), ("", "", None)],
)
def test_nearness_is_zone_then_region_then_elsewhere(zone: str, region: str, expected: float | None) -> None:
    """A node without either label is anywhere."""
    assert expected == curves.nearness(zone, region, Near(zones=("a",)), {"eu"})


def test_a_node_in_a_near_region_is_near_when_no_zone_is_known() -> None:
    """As with a pod whose annotation names only a region."""
    assert curves.nearness("b", "eu", Near(regions=("eu",)), {"eu"}) == curves.SAME_REGION


def test_an_empty_name_is_near_to_nothing() -> None:
    """An annotation may be there without a value."""
    assert curves.nearness("", "", Near(("",), ("",)), {""}) is None
