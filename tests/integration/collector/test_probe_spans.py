"""What a probe finds becomes a span at a real OTLP/HTTP collector, whose own troubles never reach the probing."""

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Iterator

import pytest
from prometheus_client import CollectorRegistry

from leadsman.domain.clock import SystemClock
from leadsman.domain.reasons import Reason
from leadsman.domain.report import ProbeContext, StorageKey
from leadsman.domain.states import State
from leadsman.telemetry.traces import Tracing
from leadsman.testing.otlp_sink import OtlpSink
from leadsman.testing.sockets import free_ports
from leadsman.testing.waiting import eventually
from leadsman_health_collector.book import Change, HealthBook
from leadsman_health_collector.observation import Kind, Observation, Outcome
from leadsman_health_collector.probe_spans import ProbeSpans
from leadsman_health_collector.probes.probe import Source
from leadsman_health_collector.strikes import Level

pytestmark = pytest.mark.integration

KEY = StorageKey("nfs.csi.k8s.io", "10.0.0.9")
SOURCE = Source(KEY, place="10.0.0.9:2049")
REFUSED = Observation(Outcome.ERROR, Reason.ENDPOINT_REFUSED, "10.0.0.9:2049 refuses the connection")
WELL = Level(State.HEALTHY)
DOWN = Level(State.UNHEALTHY, Reason.ENDPOINT_REFUSED, "10.0.0.9:2049 refuses the connection")
CHANGE = Change(Kind.TCP, "10.0.0.9:2049", SOURCE, WELL, DOWN, REFUSED)


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtlpSink]:
    """An OpenTelemetry collector, to which the environment points."""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    sink = OtlpSink().start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.endpoint)
    yield sink
    sink.close()
    logger = logging.getLogger("opentelemetry")
    logger.handlers.clear()
    logger.propagate = True


@pytest.fixture
async def tracing(sink: OtlpSink) -> AsyncIterator[Tracing]:
    """Tracing that is on, until the end of the test."""
    tracing = Tracing.start("health-collector", CollectorRegistry(), node="node-7")
    yield tracing
    sink.behaviour.answers.set()
    await tracing.close()


async def test_a_change_becomes_a_span_with_what_was_and_what_is(sink, tracing) -> None:
    """Everything that a person asks of a change is on it, and the context leads to it."""
    began = time.time() - 0.25
    context = ProbeSpans(tracing).changed(CHANGE, began)
    await eventually("the span arrives", lambda: sink.spans, within_s=5)
    (span,) = sink.spans
    assert context is not None
    assert context == ProbeContext(span.trace_id, span.span_id, context.flags)
    assert (span.name, span.parent_id) == ("probe tcp_endpoint", "")
    assert abs(span.start_ns / 1e9 - began) < 0.001
    assert 0.25 <= (span.end_ns - span.start_ns) / 1e9 < 5
    assert span.attributes == {
        "leadsman.probe": "tcp_endpoint",
        "leadsman.driver": "nfs.csi.k8s.io",
        "leadsman.backend": "10.0.0.9",
        "leadsman.source": "10.0.0.9:2049",
        "leadsman.outcome": "error",
        "leadsman.state": "UNHEALTHY",
        "leadsman.reason": "EndpointRefused",
        "leadsman.previous_state": "HEALTHY",
        "leadsman.message": "10.0.0.9:2049 refuses the connection",
    }
    assert span.resource["k8s.node.name"] == "node-7"


async def test_broken_storage_is_no_error_of_the_probe(sink, tracing) -> None:
    """An error status would count every outage as a failure of the collector."""
    ProbeSpans(tracing).changed(CHANGE, time.time())
    await eventually("the span arrives", lambda: sink.spans, within_s=5)
    assert sink.spans[0].status == 0


async def test_only_looks_that_change_something_make_spans(sink, tracing) -> None:
    """Ten looks, two changes: first well, then down at the second strike."""
    book = HealthBook(SystemClock())
    book.watch(Kind.TCP, {"10.0.0.9:2049": SOURCE})
    spans = ProbeSpans(tracing)
    for seen in [Observation(Outcome.GOOD, latency_s=0.002)] * 5 + [REFUSED] * 5:
        change = book.record(Kind.TCP, "10.0.0.9:2049", seen)
        if change is not None:
            spans.changed(change, time.time())
    await tracing.close()
    told = [(span.attributes.get("leadsman.previous_state"), span.attributes["leadsman.state"]) for span in sink.spans]
    assert told == [(None, "HEALTHY"), ("HEALTHY", "UNHEALTHY")]
    assert sink.spans[0].attributes["leadsman.latency_s"] == 0.002


async def test_a_path_of_odd_bytes_is_sent_readable(sink, tracing) -> None:
    """A mount point may hold any byte; one such must not cost the whole batch."""
    odd = Source(KEY, place="/var/lib/kubelet/pods/\udcff/mount")
    ProbeSpans(tracing).changed(Change(Kind.MOUNT, "0:42", odd, None, WELL, Observation(Outcome.GOOD)), time.time())
    await eventually("the span arrives", lambda: sink.spans, within_s=5)
    assert sink.spans[0].attributes["leadsman.source"] == "/var/lib/kubelet/pods/?/mount"


@pytest.mark.parametrize("trouble", ["gone", "silent"])
async def test_probing_does_not_wait_for_a_collector_in_trouble(sink, monkeypatch, trouble) -> None:
    """A thousand changes are recorded while the loop goes on, and the end comes in time."""
    if trouble == "gone":
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{free_ports(1)[0]}")
    sink.behaviour.answers.clear()
    tracing = Tracing.start("health-collector", CollectorRegistry())
    spans = ProbeSpans(tracing)
    longest = 0.0
    for _ in range(100):
        begin = time.monotonic()
        assert all(spans.changed(CHANGE, time.time()) for _ in range(10))
        await asyncio.sleep(0)
        longest = max(longest, time.monotonic() - begin)
    assert longest < 0.3
    begin = time.monotonic()
    await tracing.close()
    assert time.monotonic() - begin < 2.5
    sink.behaviour.answers.set()


def test_without_tracing_a_report_has_no_context() -> None:
    """And nothing is worked out for nobody."""
    assert ProbeSpans(Tracing()).changed(CHANGE, time.time()) is None
