"""The part of `leadsman.telemetry.traces` that needs OpenTelemetry's SDK; imported only where traces are wanted.

What the SDK (1.45) does not do by itself and is done here: dropped spans are counted and the newest ones are dropped;
a redirect counts as failed (the SDK takes any 3xx for success and does not follow it); spans that the collector refuses
in a "successful" answer are counted; an answer is read up to a limit; its warnings, which may quote headers, are
shortened and throttled.
"""

import os
import threading
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

import requests
from google.protobuf.message import DecodeError
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Link as OtelLink
from opentelemetry.trace import SpanContext, TraceFlags
from prometheus_client import CollectorRegistry, Counter

from leadsman.domain.report import ProbeContext
from leadsman.telemetry.logs import get_logger
from leadsman.telemetry.otel_warnings import take_over_warnings
from leadsman.telemetry.traces import Attributes, Link
from leadsman.telemetry.version import version

log = get_logger("telemetry.traces")

_QUEUE = 2048
_BATCH = 64
"""Small, because encoding a batch holds the interpreter: 512 spans delay the event loop by 5 ms, 64 by 2 (measured)."""
_DELAY_MS = 1000
_MAX_TEXT = 512
_MAX_ANSWER_BYTES = 64 * 1024


class TracingMetrics:
    """Series of the traces' way out, registered once tracing is on."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.sent = Counter(
            "leadsman_telemetry_spans_sent_total", "Spans that the collector has taken.", registry=registry
        )
        self.dropped = Counter(
            "leadsman_telemetry_spans_dropped_total",
            "Spans lost: queue_full, not_delivered (collector slow or gone), refused (by it), stopping (no time left).",
            ["cause"],
            registry=registry,
        )
        self.warnings = Counter(
            "leadsman_telemetry_warnings_total",
            "Warnings of the tracing SDK or about its configuration; the log shows one of a kind in 30 s.",
            registry=registry,
        )


class EndpointRedirectsError(requests.RequestException):
    """The collector sends us elsewhere; the endpoint must be set to where it really is."""


class OtlpPipeline:
    """From a finished span to the collector; see `Tracing`, which is what services use."""

    def __init__(self, component: str, node: str, registry: CollectorRegistry) -> None:
        metrics = TracingMetrics(registry)
        self._warn = take_over_warnings(metrics.warnings)
        limit = self._number("OTEL_BSP_MAX_QUEUE_SIZE", _QUEUE)
        self._delivery = Delivery(limit, metrics)
        self._provider = TracerProvider(resource=_resource(component, node), shutdown_on_exit=False)
        self._provider.add_span_processor(
            BoundedProcessor(
                self._delivery,
                max_queue_size=limit,
                max_export_batch_size=min(limit, self._number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", _BATCH)),
                schedule_delay_millis=self._number("OTEL_BSP_SCHEDULE_DELAY", _DELAY_MS),
            )
        )
        self._tracer = self._provider.get_tracer("leadsman", version())
        self._check_protocol()
        log.info("sending traces", to=_shown_endpoint(), queue=limit)

    def span(self, name: str, start_ns: int, attributes: Attributes, links: Sequence[Link]) -> ProbeContext:
        """See `Tracing.span`."""
        span = self._tracer.start_span(
            name,
            context=Context(),  # a root, whatever span may be the current one
            attributes=_clean(attributes),
            links=[link for link in map(_link, links) if link is not None],
            start_time=start_ns,
        )
        span.end(max(start_ns, time.time_ns()))  # the clock may have gone back meanwhile
        context = span.get_span_context()
        return ProbeContext(f"{context.trace_id:032x}", f"{context.span_id:016x}", int(context.trace_flags))

    def stop(self) -> None:
        """Send what is left and end the export thread; takes as long as the SDK likes."""
        self._provider.shutdown()

    def give_up(self) -> None:
        """Make a `stop` that takes too long end soon; what is left is dropped."""
        self._delivery.give_up()

    def _number(self, name: str, default: int) -> int:
        """The positive whole number in the variable `name`; `default` if it is unset or something else."""
        text = os.environ.get(name, "").strip()
        if not text:
            return default
        if text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0:
            return int(text)
        self._warn(name, f"{name} is not a positive number, {default} is used")
        return default

    def _check_protocol(self) -> None:
        name = "OTEL_EXPORTER_OTLP_PROTOCOL"
        asked = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or os.environ.get(name)
        if asked and asked.strip() != "http/protobuf":
            self._warn(
                "protocol", f"only http/protobuf is spoken, not {asked[:20]}; use the endpoint's HTTP port (4318)"
            )


class BoundedProcessor(BatchSpanProcessor):
    """Batches spans for a `Delivery`, and turns away those that find its queue full."""

    def __init__(
        self, delivery: "Delivery", *, max_queue_size: int, max_export_batch_size: int, schedule_delay_millis: int
    ) -> None:
        super().__init__(delivery, max_queue_size, schedule_delay_millis, max_export_batch_size)
        self._delivery = delivery

    def on_end(self, span: ReadableSpan) -> None:
        """Take a finished span, unless it is not sampled or there is no room."""
        if span.context and span.context.trace_flags.sampled and self._delivery.admit():
            super().on_end(span)


class Delivery(SpanExporter):
    """Hands batches to the OTLP exporter and counts what becomes of them; `limit` spans may wait for it."""

    def __init__(self, limit: int, metrics: TracingMetrics) -> None:
        session = requests.Session()
        session.stream = True  # the answer is read by `_check_answer`, no further than it likes
        session.hooks["response"].append(self._check_answer)
        self._otlp = OTLPSpanExporter(session=session)
        self._limit = limit
        self._metrics = metrics
        self._lock = threading.Lock()
        self._waiting = 0
        self._refused = 0
        self._closed = False

    def admit(self) -> bool:
        """Whether one more span may wait."""
        with self._lock:
            room = self._waiting < self._limit
            self._waiting += room
        if not room:
            self._metrics.dropped.labels("queue_full").inc()
        return room

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send one batch; the export thread calls it, and may be kept for as long as OTEL_EXPORTER_OTLP_TIMEOUT."""
        with self._lock:
            if self._closed:
                return SpanExportResult.FAILURE
            self._waiting -= len(spans)
        self._refused = 0
        result = SpanExportResult.FAILURE
        try:
            result = self._otlp.export(spans)
        finally:
            self._count(len(spans), result)
        return result

    def shutdown(self) -> None:
        """Called by the SDK once the last batch was sent or failed."""
        self._end()

    def give_up(self) -> None:
        """Let the batch on its way be the last one."""
        if self._end() and self._waiting:
            self._metrics.dropped.labels("stopping").inc(self._waiting)
            log.warning("stopping without having sent all spans", dropped=self._waiting)

    def _end(self) -> bool:
        """End a wait for the next attempt, and allow no other batch; False if that was done before."""
        with self._lock:
            if self._closed:
                return False
            self._closed = True
        self._otlp.shutdown()  # type: ignore[no-untyped-call]
        return True

    def _count(self, number: int, result: SpanExportResult) -> None:
        if result is not SpanExportResult.SUCCESS:
            self._metrics.dropped.labels("not_delivered").inc(number)
            return
        refused = min(self._refused, number)
        self._metrics.dropped.labels("refused").inc(refused)
        self._metrics.sent.inc(number - refused)

    def _check_answer(self, response: requests.Response, *_: object, **__: object) -> None:
        body = response.raw.read(_MAX_ANSWER_BYTES, decode_content=True)
        response.close()
        if 300 <= response.status_code < 400:
            raise EndpointRedirectsError
        if response.ok:
            self._refused = _refused_spans(body)


def _refused_spans(body: bytes) -> int:
    """How many spans of the batch the collector did not take; what is no OTLP answer does not say that it took none."""
    try:
        return max(0, ExportTraceServiceResponse.FromString(body).partial_success.rejected_spans)
    except DecodeError:
        return 0


def _resource(component: str, node: str) -> Resource:
    ours = {"service.name": f"leadsman-{component}", "service.namespace": "leadsman", "service.version": version()}
    if node:
        ours["k8s.node.name"] = node
    return Resource.create({**ours, **OTELResourceDetector().detect().attributes})  # what the operator says wins


def _clean(attributes: Attributes) -> dict[str, str | float | bool]:
    """Attributes that can be encoded: short, and without the lone surrogates that stand for odd bytes in a path."""
    return {
        name: value.encode("utf-8", "replace").decode()[:_MAX_TEXT] if isinstance(value, str) else value
        for name, value in attributes.items()
        if value is not None
    }


def _link(link: Link) -> OtelLink | None:
    """The link in the SDK's form; None if its ids, which come from another machine, are none."""
    try:
        trace_id, span_id = int(link.context.trace_id, 16), int(link.context.span_id, 16)
    except ValueError:
        return None
    context = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(link.context.flags & 0xFF))
    return OtelLink(context, _clean(link.attributes)) if context.is_valid else None


def _shown_endpoint() -> str:
    """Host and port only: an endpoint may hold a password or a token."""
    address = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"]
    try:
        return urlsplit(address).netloc.rpartition("@")[2]
    except ValueError:
        return "?"  # the exporter will say so too
