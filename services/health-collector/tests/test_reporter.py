"""From statuses to reports."""

from prometheus_client import CollectorRegistry

from leadsman.domain.reasons import Reason
from leadsman.domain.report import NodeReport, Sequence, StorageKey
from leadsman.domain.states import State
from leadsman.testing.clock import FakeClock
from leadsman.wire.report import MAX_BODY_BYTES, encode_report
from leadsman_health_collector.book import HealthBook
from leadsman_health_collector.cluster_view import AttachSlots
from leadsman_health_collector.metrics import CollectorMetrics
from leadsman_health_collector.observation import Kind, Observation, Outcome
from leadsman_health_collector.probes.probe import Source
from leadsman_health_collector.reporter import NodeDetails, Reporter

GOOD = Observation(Outcome.GOOD)
BAD = Observation(Outcome.ERROR, Reason.ENDPOINT_REFUSED, "refused " + "x" * 500)


class Desk:
    """A reporter with a publisher that notes what it is given."""

    def __init__(self) -> None:
        self.book = HealthBook(FakeClock())
        self.published: list[tuple[NodeReport, bool]] = []
        self.kept: list[object] = []
        self.ready = True
        self.details = NodeDetails()
        self.registry = CollectorRegistry()
        self.reporter = Reporter(
            NodeReport("node-1", Sequence(0, 0), 0.0, (), boot_id="boot"),
            self.book,
            self,
            ready=lambda: self.ready,
            keep=self.kept.append,
            metrics=CollectorMetrics(self.registry),
            details=lambda: self.details,
        )

    def update(self, report: NodeReport, *, urgent: bool) -> None:
        self.published.append((report, urgent))

    def look(self, keys: dict[str, StorageKey], bad: set[str] = frozenset(), times: int = 2) -> None:
        self.book.watch(Kind.TCP, {name: Source(key) for name, key in keys.items()})
        for name in [*keys] * times:
            self.book.record(Kind.TCP, name, BAD if name in bad else GOOD)
        self.book.end_round(Kind.TCP, discovered=True)
        self.reporter.refresh()


ONE = {"a": StorageKey("d", "b")}


def test_a_change_is_urgent_and_a_repetition_is_not():
    """At once on change, else with the heartbeat."""
    desk = Desk()
    desk.look(ONE)
    desk.look(ONE)
    desk.look(ONE, {"a"})
    assert [urgent for _, urgent in desk.published] == [True, False, True]
    assert desk.published[-1][0].storages[0].state is State.UNHEALTHY
    assert len(desk.kept) == 3


def test_nothing_is_said_before_every_probe_has_looked_and_then_it_is_urgent():
    """An early report would replace what the cluster knows by unknown."""
    desk = Desk()
    desk.ready = False
    desk.look(ONE)
    assert desk.published == []
    desk.ready = True
    desk.reporter.refresh()
    assert [urgent for _, urgent in desk.published] == [True]


def test_a_node_without_storage_still_reports():
    """Silence would look like a dead node."""
    desk = Desk()
    desk.reporter.refresh()
    assert desk.published[0][0].storages == ()


def test_the_worst_storages_stay_in_a_report_that_is_too_large():
    """The bus refuses large bodies without a word, which would silence the node."""
    desk = Desk()
    keys = {f"a{n}": StorageKey("some.long-driver-name.example.com", f"storage-{n}.example.com") for n in range(200)}
    desk.look(keys, {"a7", "a150"})
    report = desk.published[-1][0]
    assert len(encode_report(report)) <= MAX_BODY_BYTES
    assert len(report.storages) < 200
    assert {each.key.backend for each in report.storages if each.state is State.UNHEALTHY} == {
        "storage-7.example.com",
        "storage-150.example.com",
    }
    assert desk.registry.get_sample_value("leadsman_collector_report_truncated_total") == 1


def test_texts_are_cut_before_storages_are():
    """Words are for people; states decide."""
    desk = Desk()
    keys = {f"a{n}": StorageKey("d", f"backend-{n}") for n in range(60)}
    desk.look(keys, set(keys))
    report = desk.published[-1][0]
    assert len(report.storages) == 60
    assert len(encode_report(report)) <= MAX_BODY_BYTES
    assert desk.registry.get_sample_value("leadsman_collector_report_truncated_total") == 0


def test_states_are_exported_as_metrics():
    """One series per storage is 1, the others 0."""
    desk = Desk()
    desk.look(ONE)
    labels = {"driver": "d", "backend": "b"}
    name = "leadsman_collector_storage_state"
    assert desk.registry.get_sample_value(name, {**labels, "state": "HEALTHY"}) == 1
    assert desk.registry.get_sample_value(name, {**labels, "state": "UNHEALTHY"}) == 0
    desk.look({})
    assert desk.registry.get_sample_value(name, {**labels, "state": "HEALTHY"}) is None


def test_attach_slots_are_told_of_the_driver_and_of_none_of_its_backends():
    """A limit is the driver's on this node; a driver without one tells neither number. They are no urgent news."""
    desk = Desk()
    desk.look({"a": StorageKey("d"), "b": StorageKey("d", "b"), "c": StorageKey("other")})
    desk.details = NodeDetails(attach_slots={"d": AttachSlots(8, 3), "gone": AttachSlots(1)})
    desk.reporter.refresh()
    report, urgent = desk.published[-1]
    slots = {str(one.key): (one.attach_limit, one.attached) for one in report.storages}
    assert slots == {"d": (8, 3), "d/b": (None, None), "other": (None, None)}
    assert not urgent
