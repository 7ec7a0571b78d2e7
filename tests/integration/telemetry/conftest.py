"""Tracing towards a collector of our own, ended with the test."""

import logging
import os
import threading
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs
from structlog.typing import EventDict

from leadsman.telemetry.traces import Tracing
from leadsman.testing import waiting
from leadsman.testing.otlp_sink import OtlpSink

EXPORT_THREAD = "OtelBatchSpanRecordProcessor"


class Traced:
    """Tracing that is on, and its series."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.tracing = Tracing.start("test", self.registry, node="node-1")

    def spans(self, number: int, name: str = "probe test"):
        """Record spans that do not matter by themselves."""
        return [self.tracing.span(name, start_ns=1_000, attributes={"number": each}) for each in range(number)]

    def count(self, series: str, **labels: str) -> float:
        """A counter of `leadsman_telemetry_…`."""
        return self.registry.get_sample_value(f"leadsman_telemetry_{series}_total", labels) or 0.0

    def dropped(self, cause: str) -> float:
        """Spans dropped for `cause`."""
        return self.count("spans_dropped", cause=cause)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No OTEL_ variables but those of the test, and swift delivery."""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    return monkeypatch


@pytest.fixture
def logged() -> Iterator[list[EventDict]]:
    """What is logged during the test."""
    with capture_logs() as events:
        yield events


@pytest.fixture
def sink(environment: pytest.MonkeyPatch) -> Iterator[OtlpSink]:
    """A collector, to which the environment points."""
    sink = OtlpSink().start()
    environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.endpoint)
    yield sink
    sink.close()


@pytest.fixture
async def traced():
    """Makes `Traced`; when the test is over, all are closed and no export thread is left."""
    logger = logging.getLogger("opentelemetry")
    made: list[Traced] = []

    def make() -> Traced:
        made.append(Traced())
        return made[-1]

    yield make
    for each in made:
        await each.tracing.close()
    logger.handlers.clear()
    logger.propagate = True
    left = lambda: [each.name for each in threading.enumerate() if each.name == EXPORT_THREAD]  # noqa: E731
    await waiting.eventually("no export thread is left", lambda: not left(), within_s=15)
