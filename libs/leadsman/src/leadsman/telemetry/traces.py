"""Spans written by hand, sent to an OpenTelemetry collector as OTLP over HTTP, if the operator asks for them.

Only OpenTelemetry's own variables configure it. Without `OTEL_EXPORTER_OTLP_ENDPOINT` or
`OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, with `OTEL_SDK_DISABLED=true` or with an `OTEL_TRACES_EXPORTER` other than `otlp`
nothing of OpenTelemetry is even imported (that would cost 0.4 s at start and some 10 MiB), and no thread runs.
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from leadsman.domain.report import ProbeContext

if TYPE_CHECKING:
    from leadsman.telemetry.otlp import OtlpPipeline

CLOSE_S = 2.0
"""How long a stopping service waits for its last spans; with a dead collector the SDK alone takes 12-14 s."""

Attributes = Mapping[str, str | float | bool | None]
"""Attributes of a span by name; None leaves one out."""


@dataclass(frozen=True, slots=True)
class Link:
    """A reference from a span to another one that it rests on, wherever that one was made."""

    context: ProbeContext
    attributes: Attributes = field(default_factory=dict)


class Tracing:
    """Takes spans from the event loop's thread and never makes it wait; made by `start`, ended by `close`.

    A collector that is slow, gone or refuses costs spans, never time: they are dropped and counted in
    `leadsman_telemetry_spans_dropped_total`.
    """

    def __init__(self, pipeline: "OtlpPipeline | None" = None) -> None:
        self._pipeline = pipeline

    @classmethod
    def start(cls, component: str, registry: CollectorRegistry, *, node: str = "") -> "Tracing":
        """Tracing as the environment asks for it, most often none at all.

        The resource is `leadsman-<component>` (or what `OTEL_SERVICE_NAME` says), our version, and `k8s.node.name` if
        `node` is given. Loads the SDK if need be, so call it before the service has anything to be late with.
        """
        if not _wanted():
            return cls()
        from leadsman.telemetry.otlp import OtlpPipeline  # noqa: PLC0415 - not loaded unless it is wanted

        return cls(OtlpPipeline(component, node, registry))

    @property
    def enabled(self) -> bool:
        """Whether spans go anywhere; if not, there is no point in collecting attributes."""
        return self._pipeline is not None

    def span(
        self, name: str, *, start_ns: int, attributes: Attributes, links: Sequence[Link] = ()
    ) -> ProbeContext | None:
        """Record work that ends now and began at `start_ns` (nanoseconds since 1970), as a trace of its own.

        Returns what others may link to, also for a span that the sampler leaves out (bit 1 of `flags` is 0 then);
        None if tracing is off.
        """
        if self._pipeline is None:
            return None
        return self._pipeline.span(name, start_ns, attributes, links)

    async def close(self) -> None:
        """Send what is left, for at most CLOSE_S seconds; what could not be sent by then is dropped and counted."""
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is None:
            return
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def stop() -> None:
            pipeline.stop()
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(done.set)

        # Not asyncio.to_thread: the interpreter waits for those threads at its end, however long they take.
        threading.Thread(target=stop, name="tracing-close", daemon=True).start()
        try:
            async with asyncio.timeout(CLOSE_S):
                await done.wait()
        except TimeoutError:
            pipeline.give_up()


def _wanted() -> bool:
    disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    exporters = os.environ.get("OTEL_TRACES_EXPORTER") or "otlp"
    endpoint = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    return bool(endpoint) and not disabled and "otlp" in exporters.replace(" ", "").split(",")
