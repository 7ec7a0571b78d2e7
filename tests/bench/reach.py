"""Measure what a health-collector costs a node: memory and processor time at full reach, and what dominates.

What runs: a real nats-server, an API server double, 5 CSI drivers as processes with their registration sockets, 20
mounted volumes of several backends (FUSE, and ext4 on loop devices), and 10 endpoints that speak NFS, Ceph or only TCP.
The collector runs with the settings it is shipped with: a look every 10 s, 3 s to answer, a report every 10 s.

Memory is that of the collector and all its worker processes together; processor time that of the collector, its
workers and all that it has had. What dominates is told by a second collector afterwards, whose tasks are timed.
Linux only, as root. The limits are those of the contract.
"""

import argparse
import dataclasses
import json
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from leadsman.domain.errors import LeadsmanError
from leadsman_bench import table
from leadsman_bench.build import report
from leadsman_bench.reach_node import ReachNode, enter_namespace
from leadsman_bench.reach_run import Plan, measure, shares
from leadsman_bench.reach_usage import Usage, summarise
from leadsman_bench.reach_volumes import CannotMeasureError
from leadsman_bench.reach_world import DRIVERS

RSS_GOAL_MIB = 100.0
CPU_GOAL_PERCENT = 1.5

_SHOWN = 0.5
"""Parts below so many milliseconds per minute are shown together."""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, metavar="N", help="length of the measurement (10)")
    parser.add_argument("--warm-up", type=float, default=30.0, metavar="S", help="seconds before it (30)")
    parser.add_argument("--shares", type=float, default=120.0, metavar="S", help="seconds of the second run (120)")
    parser.add_argument("--only", metavar="TEXT", default="", help="only drivers whose name contains TEXT")
    parser.add_argument("--no-api", action="store_true", help="let the collector see no API server")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table", help="for people or programs")
    options = parser.parse_args(arguments)
    if min(options.minutes, options.warm_up, options.shares) <= 0:
        parser.error("times must be above zero")
    return options


def limits(usage: Usage) -> list[table.Row]:
    """The figures beside their limits."""
    return [
        table.limit_row("memory, resident, at most", usage.rss_max_mib, "MiB", RSS_GOAL_MIB),
        table.limit_row("memory, resident, mean", usage.rss_mean_mib, "MiB", None),
        table.limit_row("memory, without its workers, at most", usage.own_rss_max_mib, "MiB", None),
        table.limit_row("memory, shared pages once (PSS), at most", usage.pss_max_mib, "MiB", None),
        table.limit_row("processor time, of one core", usage.cpu_percent, "%", CPU_GOAL_PERCENT),
        table.limit_row("processor time of its workers in it", usage.worker_cpu_percent, "%", None),
    ]


def met(usage: Usage) -> bool:
    """Whether no limit is missed."""
    return usage.rss_max_mib <= RSS_GOAL_MIB and usage.cpu_percent <= CPU_GOAL_PERCENT


def share_rows(spent: Mapping[str, float]) -> list[table.Row]:
    """Parts with their milliseconds per minute and their share of all; the small ones together."""
    total = sum(spent.values())
    large = {part: value for part, value in spent.items() if value >= _SHOWN}
    rows = {**large, "the rest": total - sum(large.values()), "all": total}
    return [(part, f"{value:.1f}", f"{100 * value / total:.1f} %") for part, value in rows.items()]


def facts(node: ReachNode) -> dict[str, str]:
    """What the figures were measured on."""
    volumes = sum(len(driver.volumes) for driver in node.drivers)
    return {
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.release()}",
        "load before": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "reach": f"{len(node.drivers)} drivers, {volumes} mounts, {node.block_volumes} of them ext4 on loop devices",
    }


def show(told: Mapping[str, str], usage: Usage, spent: Mapping[str, float]) -> None:
    """Print the tables."""
    print("\n".join(f"{name:<12} {value}" for name, value in told.items()))
    print(f"\n{usage.minutes:.1f} minutes, {usage.samples} samples, up to {usage.processes_max} processes.")
    print(f"Resident memory grew by {usage.growth_mib:+.2f} MiB from the first tenth of the run to the last.\n")
    print(table.resource_table(limits(usage)))
    print("\nWhat it does with its time, in a second run:\n")
    print(table.render(("part", "ms per minute", "share"), share_rows(spent), {0}))


def run(options: argparse.Namespace) -> bool:
    """Measure and show; whether the limits are met."""
    drivers = [driver for driver in DRIVERS if options.only in driver.name]
    if not drivers:
        raise CannotMeasureError(f"no driver contains {options.only!r}; there are {', '.join(d.name for d in DRIVERS)}")
    plan = Plan(60 * options.minutes, options.warm_up, options.shares, api=not options.no_api)
    # Short, because the path of a unix socket must be.
    with tempfile.TemporaryDirectory(prefix="lmr-", ignore_cleanup_errors=True) as folder:
        report("starting nats-server, drivers, servers and mounts")
        with ReachNode(Path(folder), drivers) as node:
            told = facts(node)
            samples = measure(node, plan)
            spent = shares(node, plan)
    usage = summarise(samples)
    if options.output == "json":
        document = {
            "machine": told,
            "usage": dataclasses.asdict(usage),
            "ms_per_minute": spent,
            "met": met(usage),
            "samples": [dataclasses.asdict(sample) for sample in samples],
        }
        print(json.dumps(document, indent=1))
    else:
        show(told, usage, spent)
    return met(usage)


def stop_on_sigterm() -> None:
    """Turn SIGTERM into an exit that still ends every process, as Ctrl-C does."""

    def leave(signum: int, _frame: object) -> NoReturn:
        raise SystemExit(128 + signum)

    signal.signal(signal.SIGTERM, leave)


def main() -> int:
    """Entry point. The exit status is 1 for a missed limit or a failed run, 2 when something is missing."""
    options = parse(sys.argv[1:])
    stop_on_sigterm()
    try:
        enter_namespace()
        return 0 if run(options) else 1
    except CannotMeasureError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except LeadsmanError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("error: interrupted; every process has been stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
