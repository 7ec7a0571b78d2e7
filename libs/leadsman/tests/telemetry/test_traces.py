"""Without being asked for, tracing does not exist: nothing is imported, nothing runs, nothing is registered."""

import subprocess
import sys

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from leadsman.telemetry.traces import Tracing

PROGRAM = """
import asyncio, sys, threading
from prometheus_client import CollectorRegistry
from leadsman.telemetry.traces import Tracing
registry = CollectorRegistry()
tracing = Tracing.start("test", registry)
assert not tracing.enabled
assert tracing.span("probe", start_ns=1, attributes={"a": 1}) is None
asyncio.run(tracing.close())
assert threading.active_count() == 1
assert not list(registry.collect())
print(sorted(name for name in sys.modules if name.startswith(("opentelemetry", "requests"))))
"""


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "True"},
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_nothing_is_loaded_unless_an_endpoint_asks_for_it(environment: dict[str, str]) -> None:
    """No module of the SDK, no thread, no series."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


async def test_a_service_need_not_know_whether_tracing_is_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call is harmless when it is off, also twice."""
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    registry = CollectorRegistry()
    tracing = Tracing.start("test", registry)
    assert tracing.span("probe", start_ns=0, attributes={}) is None
    await tracing.close()
    await tracing.close()
    assert generate_latest(registry) == b""
