"""A span per probe run that changed something; filter and scorer link to the one behind what they decide.

| attribute | meaning |
|---|---|
| `leadsman.probe` | kind of the probe, as in metrics and the configuration |
| `leadsman.driver`, `leadsman.backend` | whose state it is about; no backend for the driver itself |
| `leadsman.source` | what was looked at: a path, an address, a superblock |
| `leadsman.outcome` | what this one look found |
| `leadsman.state`, `leadsman.reason` | of the source from now on (one among several that make up the backend's) |
| `leadsman.previous_state`, `leadsman.previous_reason` | until now; none for the first word about a source |
| `leadsman.message` | words for people |
| `leadsman.latency_s` | how long the answer took, in seconds, if there was one |

The span begins with the look and ends once it was weighed. Its status stays unset, also for the worst of states: the
probe did its work, and broken storage is what it is there to find. A look that could not be had changes nothing, so it
makes no span; `leadsman_collector_probe_results_total{outcome="not_run"}` counts it.
"""

from leadsman.domain.report import ProbeContext
from leadsman.telemetry.traces import Attributes, Tracing
from leadsman_health_collector.book import Change

_NS = 1_000_000_000


class ProbeSpans:
    """Records changes as spans of `tracing`."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing

    def changed(self, change: Change, began_epoch_s: float) -> ProbeContext | None:
        """Record the look that led to `change` and began at `began_epoch_s` (seconds since 1970).

        Returns the context for the report that carries the change; None if tracing is off.
        """
        if not self._tracing.enabled:
            return None
        return self._tracing.span(
            f"probe {change.kind.value}", start_ns=int(began_epoch_s * _NS), attributes=_attributes(change)
        )


def _attributes(change: Change) -> Attributes:
    before, after = change.before, change.after
    return {
        "leadsman.probe": change.kind.value,
        "leadsman.driver": change.source.key.driver,
        "leadsman.backend": change.source.key.backend or None,
        "leadsman.source": change.source.place or change.name,
        "leadsman.outcome": change.seen.outcome.value,
        "leadsman.state": after.state.value if after else None,
        "leadsman.reason": after.reason.value if after and after.reason else None,
        "leadsman.previous_state": before.state.value if before else None,
        "leadsman.previous_reason": before.reason.value if before and before.reason else None,
        "leadsman.message": change.seen.message or None,
        "leadsman.latency_s": change.seen.latency_s,
    }
