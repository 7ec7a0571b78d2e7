"""Measure Leadsman's whole path beside a scheduler extender written in Go, both up at once, in one run.

What runs: a real nats-server; filter, scorer and gateway as shipped; a feeder that plays the collectors of 5,000 nodes
with live heartbeats, 500 reports a second, while everything is timed. A C program posts what kube-scheduler posts, in
short bursts that rotate over the two servers. Both must give the same right answers before anything is timed, and
every timed answer must have the size of the right one.

Ratios are ours divided by Go's in the same repeat: percentiles over the samples of all bursts, then the median over
repeats. Each repeat has fresh processes. Linux only. Goals: the performance contract.
"""

import argparse
import dataclasses
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from leadsman.domain.errors import LeadsmanError
from leadsman_bench import build, cases, machine, table
from leadsman_bench.build import report
from leadsman_bench.cases import Case
from leadsman_bench.load import LoadError, Plan
from leadsman_bench.repeat import Repeat, Resources, Settings, median_resources, run_repeat
from leadsman_bench.samples import Pair

DEFAULT = Settings(cases.CASES, Plan(rounds=4, burst_s=0.35, warm_up_s=0.15), window_s=3.0)
QUICK = Settings(cases.QUICK_CASES, Plan(rounds=3, burst_s=0.2, warm_up_s=0.1), window_s=2.0)

EPILOG = """\
It takes about 7 minutes, with --quick about one; the first time half a minute more, to build. Needs Go and a C
compiler. What it builds is kept in ${LEADSMAN_CACHE_DIR:-${XDG_CACHE_HOME:-~/.cache}/leadsman}/bench.
"""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one repeat of short bursts, without 44 MB bodies")
    parser.add_argument("--repeats", type=int, metavar="N", help="independent repeats (default 3, with --quick 1)")
    parser.add_argument("--only", metavar="TEXT", default="", help="only cases whose name contains TEXT")
    parser.add_argument(
        "--gogc", type=int, default=100, help="GOGC of the extender; 800 acts like a large live heap (goals: 100)"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write every figure as JSON")
    options = parser.parse_args(arguments)
    if options.repeats is not None and options.repeats < 1:
        parser.error("--repeats must be at least 1")
    return options


def choose(*, quick: bool, only: str, gogc: int) -> Settings:
    """What to measure."""
    settings = QUICK if quick else DEFAULT
    chosen = [case for case in settings.cases if only in case.name]
    if not chosen:
        names = "\n  ".join(case.name for case in settings.cases)
        raise SystemExit(f"error: no case contains {only!r}; the cases are\n  {names}")
    return dataclasses.replace(settings, cases=chosen, gogc=gogc)


def measure(artefacts: build.Artefacts, settings: Settings, count: int) -> list[Repeat]:
    """All repeats, in a temporary folder that goes with them."""
    repeats = []
    with tempfile.TemporaryDirectory(prefix="leadsman-bench-") as folder:
        for number in range(1, count + 1):
            report(f"repeat {number} of {count}: starting nats-server, 5,000 nodes, filter, scorer, gateway, extender")
            repeats.append(run_repeat(Path(folder) / str(number), artefacts, settings))
    return repeats


def by_case(repeats: Sequence[Repeat]) -> dict[Case, list[Pair]]:
    """The pairs of all repeats, case by case."""
    return {case: [repeat.pairs[case] for repeat in repeats] for case in repeats[0].pairs}


def show(facts: dict[str, str], repeats: Sequence[Repeat]) -> None:
    """Print the tables."""
    print("\n".join(f"{name:<12} {value}" for name, value in facts.items()))
    print(f"\nMilliseconds; x = Leadsman / Go extender in the same repeat, median of {len(repeats)} repeat(s).")
    print("cpu x: gateway, filter and scorer together, heartbeats of 5,000 nodes included, against the extender.\n")
    print(table.comparison(by_case(repeats)))
    rows = resource_rows(median_resources(repeats))
    print("\n" + table.resource_table(rows))
    print(f"\nIn the contract but not measured here: {'; '.join(cases.NOT_MEASURED)}.")


def resource_rows(found: Resources) -> list[table.Row]:
    """Cold start, memory and receive cost with their goals."""
    memory_goals = {
        "gateway after 5,000 names": cases.GATEWAY_RSS_GOAL_MB,
        "gateway after 5,000 full nodes": cases.GATEWAY_RSS_FULL_GOAL_MB,
        "filter": cases.FILTER_RSS_GOAL_MB,
    }
    start, memory, cost = found.cold_start_s, found.rss_mb, found.receive
    return [
        *(table.limit_row(f"start to ready, {name}", start[name], "s", cases.COLD_START_GOAL_S) for name in start),
        *(table.limit_row(f"memory, {name}", memory[name], "MB", memory_goals.get(name)) for name in memory),
        table.limit_row("CPU per report, 500 a second", cost.live_us, "us", cases.RECEIVE_GOAL_US),
        table.limit_row("CPU per report, 5,000 a second", cost.burst_us, "us", cases.RECEIVE_GOAL_US),
    ]


def write_json(path: Path, facts: dict[str, str], repeats: Sequence[Repeat]) -> None:
    """Write every figure of every repeat."""
    document = {
        "machine": facts,
        "cases": {case.name: [dataclasses.asdict(pair) for pair in pairs] for case, pairs in by_case(repeats).items()},
        "resources": [dataclasses.asdict(repeat.resources) for repeat in repeats],
    }
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def stop_on_sigterm() -> None:
    """Turn SIGTERM into an exit that still ends every process, as Ctrl-C does."""

    def leave(signum: int, _frame: object) -> NoReturn:
        raise SystemExit(128 + signum)

    signal.signal(signal.SIGTERM, leave)


def run(options: argparse.Namespace) -> None:
    """Build, measure and show."""
    settings = choose(quick=options.quick, only=options.only, gogc=options.gogc)
    toolchain = build.find_toolchain()
    artefacts = build.provide(toolchain, os.environ)
    facts = machine.facts(toolchain, settings.gogc)
    began = time.monotonic()
    repeats = measure(artefacts, settings, options.repeats or (1 if options.quick else 3))
    report(f"done in {time.monotonic() - began:.0f} s\n")
    show(facts, repeats)
    if options.output:
        write_json(options.output, facts, repeats)


def main() -> int:
    """Entry point. The exit status is 1 for a failed run, 2 when something is missing, 130 after Ctrl-C."""
    options = parse(sys.argv[1:])
    stop_on_sigterm()
    try:
        run(options)
    except build.MissingToolError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (build.BuildError, LoadError, LeadsmanError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("error: interrupted; every process has been stopped", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
