"""An OpenTelemetry collector as far as traces over HTTP go: takes them, keeps them, or misbehaves as told.

In-process, on a thread of its own, for tests of the telemetry that services send.
"""

import gzip
import threading
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass(frozen=True, slots=True)
class SeenSpan:
    """A span as it arrived: plain values, ids in hex, times in nanoseconds since 1970."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    start_ns: int
    end_ns: int
    flags: int
    status: int
    attributes: dict[str, Any]
    resource: dict[str, Any]
    links: tuple[tuple[str, str, dict[str, Any]], ...]


@dataclass(slots=True)
class Behaviour:
    """What the sink does with a request; change it at any time.

    `status` is its answer, `refuse` the spans of each request that it says it did not take, `headers` are sent with
    the answer. While `silent` is not set requests are kept waiting until it is.
    """

    status: HTTPStatus = HTTPStatus.OK
    refuse: int = 0
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    answers: threading.Event = field(default_factory=threading.Event)


class OtlpSink:
    """Listens on a free port of 127.0.0.1 from `start` to `close`."""

    def __init__(self) -> None:
        self.behaviour = Behaviour()
        self.behaviour.answers.set()
        self.spans: list[SeenSpan] = []
        self.requests: list[dict[str, str]] = []
        """Headers of every request, as they came in."""
        self.connections = 0
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def endpoint(self) -> str:
        """For OTEL_EXPORTER_OTLP_ENDPOINT."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> "OtlpSink":
        """Serve."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Let waiting requests go and stop listening."""
        self.behaviour.answers.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, body: bytes) -> None:
        """Keep the spans in one request's body."""
        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = _values(group.resource.attributes)
            self.spans += [_seen(span, resource) for scope in group.scope_spans for span in scope.spans]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, sink: OtlpSink) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.sink = sink

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - the standard library's signature
        """A client that went away is no error here."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.server.sink.connections += 1

    def do_POST(self) -> None:
        sink = self.server.sink
        body = self.rfile.read(int(self.headers["Content-Length"]))
        sink.requests.append({"path": self.path, **{name.lower(): value for name, value in self.headers.items()}})
        sink.behaviour.answers.wait()
        told = sink.behaviour
        if told.status is HTTPStatus.OK:
            sink.take(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
        answer = ExportTraceServiceResponse()
        answer.partial_success.rejected_spans = told.refuse
        self._answer(told, answer.SerializeToString() if told.body is None else told.body)

    def _answer(self, told: Behaviour, body: bytes) -> None:
        self.send_response(told.status)
        for name, value in {"Content-Length": str(len(body)), **told.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the standard library's signature
        """Say nothing."""


def _seen(span: Span, resource: dict[str, Any]) -> SeenSpan:
    return SeenSpan(
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        flags=span.flags,
        status=span.status.code,
        attributes=_values(span.attributes),
        resource=resource,
        links=tuple((link.trace_id.hex(), link.span_id.hex(), _values(link.attributes)) for link in span.links),
    )


def _values(pairs: Any) -> dict[str, Any]:  # noqa: ANN401 - a repeated protobuf field
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:  # noqa: ANN401 - as many types as protobuf's AnyValue has
    kind = value.WhichOneof("value")
    return getattr(value, kind) if kind else None
