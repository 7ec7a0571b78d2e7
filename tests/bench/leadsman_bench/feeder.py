"""Plays the collectors of all nodes: a report of each at once, then heartbeats evenly spread, in a process of its own.

    python -m leadsman_bench.feeder --nats-url URL --rate 500 --ready-file FILE

The ready file appears once every node has reported. Runs until it is stopped.
"""

import argparse
import asyncio
import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path

import nats
import uvloop
from nats.aio.client import Client

from leadsman.bus.subjects import status_subject
from leadsman.domain.report import NodeReport, Sequence
from leadsman.wire.report import encode_report
from leadsman_bench import fleet

FLUSH_EVERY = 500


async def feed(url: str, rate: float, ready_file: Path) -> None:
    """Publish to the server at `url`, `rate` reports per second once all nodes have reported."""
    client = await nats.connect(url, max_reconnect_attempts=-1)
    epoch = time.time_ns() // 1_000_000
    reports = [fleet.report(number, Sequence(epoch, 0)) for number in range(fleet.NODES)]
    source = _numbered(reports)
    for number in range(fleet.NODES):
        await _publish(client, next(source))
        if number % FLUSH_EVERY == 0:
            await client.flush()
    await client.flush()
    ready_file.touch()  # noqa: ASYNC240 - once, a local file
    started, published = time.monotonic(), 0
    while True:
        for _ in range(published, int((time.monotonic() - started) * rate)):
            await _publish(client, next(source))
            published += 1
        # One report at a time at the rate of 5,000 nodes, as separate collectors would send them.
        await asyncio.sleep(max(0.001, 1 / rate))


def _numbered(reports: list[NodeReport]) -> Iterator[NodeReport]:
    """Every node's report in turn, for ever, each with the next sequence number."""
    number = 0
    while True:
        number += 1
        for node, report in enumerate(reports):
            sequence, facts = Sequence(report.sequence.epoch, number), fleet.facts(node, number)
            yield dataclasses.replace(report, sequence=sequence, sent_epoch_s=round(time.time(), 3), facts=facts)


async def _publish(client: Client, report: NodeReport) -> None:
    await client.publish(status_subject(report.node), encode_report(report))


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nats-url", required=True)
    parser.add_argument("--rate", type=float, required=True, help="reports per second, all nodes together")
    parser.add_argument("--ready-file", type=Path, required=True)
    options = parser.parse_args()
    uvloop.run(feed(options.nats_url, options.rate, options.ready_file))


if __name__ == "__main__":
    main()
