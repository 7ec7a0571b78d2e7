"""What the services need apart from latency: time to become ready, memory, and processor time per report."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from leadsman.testing.pages import page
from leadsman_bench.fleet import NODES
from leadsman_bench.load import cpu_seconds
from leadsman_bench.pipeline import Bench, Service

_REPORTS = "leadsman_replica_reports_total{"

BURST_RATE = 5000.0
"""Reports per second of 50,000 nodes."""


@dataclass(frozen=True, slots=True)
class ReceiveCost:
    """Processor time of a filter per report in microseconds: at the pace of 5,000 nodes and of 50,000."""

    live_us: float
    burst_us: float


def resident_mb(service: Service) -> float:
    """Resident memory in MB (1e6 bytes)."""
    return float(psutil.Process(service.pid).memory_info().rss) / 1e6


def cold_start(bench: Bench, start: Callable[[], Service]) -> float:
    """Seconds from starting a process to its first ready answer, other traffic going on.

    Includes some 15 ms for the program that ties the process to ours.
    """
    began = time.monotonic()
    service = start()
    bench.wait_ready(service, every_s=0.005)
    elapsed = time.monotonic() - began
    bench.stop(service.process)
    return elapsed


def receive_cost(bench: Bench, nats_url: str, filter_: Service, live_rate: float, window_s: float) -> ReceiveCost:
    """What one report costs `filter_`, that gets nothing else to do; its own idling is measured and taken off.

    The feeder must not be running: this starts its own, whose reports are newer.
    """
    idle = _busy_share(filter_, window_s)
    costs = []
    for rate in (live_rate, BURST_RATE):
        # The feeder begins with a report of every node at once; that crowd is not what is measured.
        enough = reports_taken(filter_) + NODES
        feeder = bench.start_feeder(nats_url, rate)
        _wait_for_reports(filter_, enough)
        costs.append(_cost_per_report(filter_, window_s, idle))
        bench.stop(feeder)
    return ReceiveCost(*costs)


def reports_taken(filter_: Service) -> float:
    """Reports that have changed the cache of `filter_` so far, by its own metric."""
    text = page(filter_.ports["admin"], "/metrics")[1]
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(_REPORTS))


def _wait_for_reports(filter_: Service, enough: float) -> None:
    filter_.process.wait_for("the first reports are taken in", lambda: reports_taken(filter_) >= enough)


def _cost_per_report(filter_: Service, window_s: float, idle: float) -> float:
    before = reports_taken(filter_)
    began = time.monotonic()
    busy = _busy_share(filter_, window_s)
    taken, elapsed = reports_taken(filter_) - before, time.monotonic() - began
    return (busy - idle) / (taken / elapsed) * 1e6


def _busy_share(service: Service, window_s: float) -> float:
    """Processor seconds per second over the next `window_s`."""
    before, began = cpu_seconds((service.pid,)), time.monotonic()
    time.sleep(window_s)  # the length of a measurement, not a wait for something
    return (cpu_seconds((service.pid,)) - before) / (time.monotonic() - began)
