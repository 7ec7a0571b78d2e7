"""Spans reach a real OTLP/HTTP collector; one that misbehaves costs spans, which are counted, and nothing else."""

import asyncio
import sys
import time
from http import HTTPStatus

import pytest
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span

from leadsman.domain.report import ProbeContext
from leadsman.telemetry.traces import Link
from leadsman.testing.sockets import free_ports
from leadsman.testing.waiting import eventually

pytestmark = pytest.mark.integration


async def test_a_span_arrives_with_its_times_attributes_and_resource(sink, traced) -> None:
    """What the caller gets back is what others can link to."""
    start_ns = time.time_ns() - 5_000_000
    tracing = traced().tracing
    context = tracing.span(
        "probe csi_plugin",
        start_ns=start_ns,
        attributes={"leadsman.state": "HEALTHY", "took": 0.5, "yes": True, "no": None, "place": "/odd\udcff"},
    )
    await eventually("the span arrives", lambda: sink.spans, within_s=5)
    (span,) = sink.spans
    assert (span.name, span.parent_id, span.status) == ("probe csi_plugin", "", 0)
    assert (span.trace_id, span.span_id) == (context.trace_id, context.span_id)
    assert context.flags & 1
    assert span.start_ns == start_ns
    assert 5_000_000 <= span.end_ns - start_ns < 5_000_000_000
    assert span.attributes == {"leadsman.state": "HEALTHY", "took": 0.5, "yes": True, "place": "/odd?"}
    assert span.resource["service.name"] == "leadsman-test"
    assert span.resource["k8s.node.name"] == "node-1"
    assert span.resource["service.version"]
    assert sink.requests[0]["path"] == "/v1/traces"


async def test_the_operators_variables_win(sink, traced, environment) -> None:
    """Name, headers, compression and the full address of the traces are OpenTelemetry's own variables."""
    environment.setenv("OTEL_SERVICE_NAME", "storage-eyes")
    environment.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=lab")
    environment.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc")
    environment.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    environment.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{sink.endpoint}/tenant/traces")
    traced().spans(1)
    await eventually("the span arrives", lambda: sink.spans, within_s=5)
    assert sink.spans[0].resource["service.name"] == "storage-eyes"
    assert sink.spans[0].resource["deployment.environment"] == "lab"
    assert (sink.requests[0]["path"], sink.requests[0]["authorization"]) == ("/tenant/traces", "Bearer abc")


async def test_a_sampler_leaves_spans_out_and_the_flags_say_so(sink, traced, environment) -> None:
    """A reader of the flags knows that there is nothing to link to."""
    environment.setenv("OTEL_TRACES_SAMPLER", "always_off")
    subject = traced()
    (context,) = subject.spans(1)
    assert context.flags & 1 == 0
    await subject.tracing.close()
    assert sink.requests == []


async def test_every_span_is_a_trace_of_its_own(sink, traced) -> None:
    """Whatever span a library may have made the current one."""
    ambient = SpanContext(0xABC, 0xDEF, is_remote=True, trace_flags=TraceFlags(1))
    with use_span(NonRecordingSpan(ambient)):
        traced().spans(1)
    await eventually("the span arrives", lambda: sink.spans, within_s=5)
    assert sink.spans[0].parent_id == ""


async def test_links_are_kept_and_impossible_ones_left_out(sink, traced) -> None:
    """Ids come from reports of other machines, so they may be rubbish."""
    good = ProbeContext("a" * 32, "b" * 16, 1)
    rubbish = [
        ProbeContext("", ""),
        ProbeContext("zz", "1"),
        ProbeContext("0" * 32, "0" * 16),
        ProbeContext("f" * 99, "1"),
    ]
    links = [Link(context, {"k8s.node.name": "node-2"}) for context in (good, *rubbish)]
    traced().tracing.span("decide", start_ns=time.time_ns(), attributes={}, links=links)
    await eventually("the span arrives", lambda: sink.spans, within_s=5)
    assert sink.spans[0].links == (("a" * 32, "b" * 16, {"k8s.node.name": "node-2"}),)


async def test_many_spans_go_in_small_batches_over_one_connection(sink, traced) -> None:
    """Nothing is lost at a pace that the collector can keep, and nothing is left at the end."""
    subject = traced()
    subject.spans(500)
    await subject.tracing.close()
    assert len(sink.spans) == 500
    assert len(sink.requests) >= 500 / 64
    assert sink.connections == 1
    assert subject.count("spans_sent") == 500


async def test_a_collector_that_is_gone_costs_only_spans(traced, environment, logged) -> None:
    """Spans are taken without delay, lost ones are counted, the log has one line, and the end is in time."""
    environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://user:secret@127.0.0.1:{free_ports(1)[0]}/?token=secret")
    environment.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    environment.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "100")
    environment.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "10")
    subject = traced()
    begin = time.monotonic()
    subject.spans(300)
    assert time.monotonic() - begin < 0.5
    assert 100 <= subject.dropped("queue_full") <= 200
    await eventually("a batch is given up", lambda: subject.dropped("not_delivered"), within_s=5)
    begin = time.monotonic()
    await subject.tracing.close()
    assert time.monotonic() - begin < 2.5
    await eventually("all are accounted for", lambda: sum(map(subject.dropped, CAUSES)) == 300, within_s=5)
    assert subject.count("warnings") >= 2
    assert "Connection refused" in str(logged)
    assert "secret" not in str(logged)


CAUSES = ("queue_full", "not_delivered", "refused", "stopping")


async def test_a_collector_that_does_not_answer_never_keeps_the_loop_waiting(sink, traced) -> None:
    """The event loop goes on while a batch hangs, and the end comes after two seconds, not after ten."""
    sink.behaviour.answers.clear()
    subject = traced()
    subject.spans(200)
    await eventually("a request hangs", lambda: sink.requests, within_s=5)
    longest = 0.0
    for _ in range(20):
        begin = time.monotonic()
        await asyncio.sleep(0.01)
        longest = max(longest, time.monotonic() - begin)
    assert longest < 0.3
    begin = time.monotonic()
    await subject.tracing.close()
    assert 1.9 < time.monotonic() - begin < 2.5
    assert subject.dropped("stopping") == 200 - 64
    assert subject.tracing.span("late", start_ns=1, attributes={}) is None
    sink.behaviour.answers.set()


ONE_SPAN = """
import asyncio
from prometheus_client import CollectorRegistry
from leadsman.telemetry.traces import Tracing
tracing = Tracing.start("test", CollectorRegistry())
tracing.span("probe", start_ns=1, attributes={})
asyncio.run(tracing.close())
"""


async def test_a_process_ends_although_its_collector_hangs(sink) -> None:
    """No thread keeps the interpreter from ending once the two seconds are over."""
    sink.behaviour.answers.clear()
    begin = time.monotonic()
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", ONE_SPAN, stderr=asyncio.subprocess.PIPE)
    _, errors = await process.communicate()
    assert (process.returncode, errors) == (0, b"")
    assert 2 < time.monotonic() - begin < 6


async def test_a_slow_collector_gets_everything_once_it_answers(sink, traced) -> None:
    """What fits into the queue waits."""
    sink.behaviour.answers.clear()
    subject = traced()
    subject.spans(100)
    await eventually("a request hangs", lambda: sink.requests, within_s=5)
    sink.behaviour.answers.set()
    await eventually("all arrive", lambda: len(sink.spans) == 100, within_s=5)
    assert sum(map(subject.dropped, CAUSES)) == 0


@pytest.mark.parametrize("status", [HTTPStatus.FOUND, HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED])
async def test_an_answer_that_takes_nothing_is_not_taken_for_success(sink, traced, status) -> None:
    """Least of all a redirect to a login page."""
    sink.behaviour.status = status
    sink.behaviour.headers = {"Location": "http://127.0.0.1:1/login"}
    subject = traced()
    subject.spans(3)
    await eventually("they are counted", lambda: subject.dropped("not_delivered") == 3, within_s=5)
    assert subject.count("spans_sent") == 0


@pytest.mark.parametrize(("refused", "counted"), [(2, 2), (10**12, 3), (-5, 0)])
async def test_spans_that_the_collector_refuses_are_counted(sink, traced, refused, counted) -> None:
    """It says so in an answer of success; what it says is bounded by what was sent."""
    sink.behaviour.refuse = refused
    subject = traced()
    subject.spans(3)
    await eventually("it is counted", lambda: subject.dropped("refused") + subject.count("spans_sent") == 3, within_s=5)
    assert subject.dropped("refused") == counted


@pytest.mark.parametrize("body", [b"<html>hello</html>", b"\xff" * 300_000])
async def test_an_answer_that_is_no_otlp_does_no_harm(sink, traced, body) -> None:
    """Rubbish of any length is read up to a limit and otherwise ignored."""
    sink.behaviour.body = body
    subject = traced()
    subject.spans(1)
    await eventually("it is sent", lambda: subject.count("spans_sent") == 1, within_s=5)


async def test_a_header_that_cannot_be_sent_is_not_shown(sink, traced, environment, logged) -> None:
    """Neither what the SDK cannot read nor what the HTTP client refuses gets into the log."""
    environment.setenv("OTEL_EXPORTER_OTLP_HEADERS", "topsecret,authorization=Bearer%0Atopsecret")
    subject = traced()
    subject.spans(1)
    await eventually("it is given up", lambda: subject.dropped("not_delivered") == 1, within_s=5)
    assert subject.count("warnings") == 2
    assert "OTEL_EXPORTER_OTLP_HEADERS" in str(logged)
    assert "InvalidHeader" in str(logged)
    assert "topsecret" not in str(logged)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "many"),
        ("OTEL_BSP_SCHEDULE_DELAY", "-1"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
    ],
)
async def test_a_variable_that_makes_no_sense_is_named_and_does_no_harm(
    sink, traced, environment, logged, name, value
) -> None:
    """Telemetry must never keep a service from starting."""
    environment.setenv(name, value)
    subject = traced()
    subject.spans(1)
    await eventually("the span arrives", lambda: sink.spans, within_s=5)
    assert subject.count("warnings") == 1
    assert (name if "BSP" in name else "http/protobuf") in str(logged)


async def test_an_address_that_is_none_does_no_harm(traced, environment) -> None:
    """The spans are lost and counted."""
    environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://[::1")
    subject = traced()
    subject.spans(2)
    await eventually("they are counted", lambda: subject.dropped("not_delivered") == 2, within_s=5)
