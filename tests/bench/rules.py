"""Measure what policy rules cost at 5,000 nodes: a request, a report, and a reload, for 1, 10 and 100 rules in one run.

What runs: a real nats-server; filter, scorer and gateway as shipped, under one policy file that is replaced again and
again while they work; a feeder that plays the collectors of 5,000 nodes, 500 reports a second with facts that move.
Half of the rules are on labels, half in CEL on moving facts; every other one touches the pod (--all-match: every one).

Ratios are to the same services with one rule, in the same rounds. A request's cost must not depend on the number of
rules, but for the nodes that more rules reject and for the columns that more preferences add to the scores.
"""

import argparse
import dataclasses
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from leadsman.domain.errors import LeadsmanError
from leadsman_bench import build, machine
from leadsman_bench.load import LoadError
from leadsman_bench.rule_policies import COUNTS
from leadsman_bench.rule_run import CASES, Measured, run


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="how often each policy has its turn (3)")
    parser.add_argument("--all-match", action="store_true", help="every rule touches the pod, not every other one")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write every figure as JSON")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    return options


def request_rows(found: Measured) -> list[str]:
    """p50 and p99 of every case, with the ratio to one rule."""
    rows = [f"{'milliseconds (x: to 1 rule)':<30}" + "".join(f"{f'{count} rules':>28}" for count in COUNTS)]
    for case in CASES:
        cells = []
        for count in COUNTS:
            p50, p99 = found.p50(case.name, count), found.p99(case.name, count)
            ratio = p50 / found.p50(case.name, 1)
            cells.append(f"{f'{p50:.2f} ({ratio:.2f}x) p99 {p99:.2f}':>28}")
        rows.append(f"{case.name:<30}" + "".join(cells))
    return rows


def other_rows(found: Measured) -> list[str]:
    """Reports and reloads."""
    rows = [f"{'medians of the rounds':<44}" + "".join(f"{f'{count} rules':>12}" for count in COUNTS)]
    for name in ("filter", "scorer"):
        costs = [statistics.median(found.report_us[name, count]) for count in COUNTS]
        rows.append(f"{f'CPU per report, {name}, us':<44}" + "".join(f"{cost:>12.0f}" for cost in costs))
    reloads = [statistics.median(found.reload_s[count]) for count in COUNTS]
    rows.append(f"{'file written to in force on both, s':<44}" + "".join(f"{each:>12.2f}" for each in reloads))
    slowest = [statistics.median(found.slowest_ms[count]) for count in COUNTS]
    rows.append(f"{'slowest filter call meanwhile, ms':<44}" + "".join(f"{each:>12.1f}" for each in slowest))
    return [*rows, f"filter calls during reloads: {found.asked}, failed: {found.failed}"]


def write_json(path: Path, facts: dict[str, str], found: Measured) -> None:
    """Write every figure of every round."""
    document = {
        "machine": facts,
        "requests": {
            f"{case}, {count} rules": [dataclasses.asdict(one) for one in figures]
            for (case, count), figures in found.requests.items()
        },
        "report_us": {f"{name}, {count} rules": costs for (name, count), costs in found.report_us.items()},
        "reload_s": found.reload_s,
        "slowest_ms": found.slowest_ms,
        "calls": {"asked": found.asked, "failed": found.failed},
    }
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    """Entry point. The exit status is 1 for a failed run or a lost call, 2 when something is missing."""
    options = parse(sys.argv[1:])
    try:
        toolchain = build.find_toolchain()
        artefacts = build.provide(toolchain, os.environ)
        facts = machine.facts(toolchain, 100)
        with tempfile.TemporaryDirectory(prefix="leadsman-rules-") as folder:
            found = run(Path(folder) / "run", artefacts, rounds=options.rounds, all_match=options.all_match)
    except build.MissingToolError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (build.BuildError, LoadError, LeadsmanError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("error: interrupted; every process has been stopped", file=sys.stderr)
        return 130
    print("\n".join([*(f"{name:<12} {value}" for name, value in facts.items()), ""]))
    print("\n".join([*request_rows(found), "", *other_rows(found)]))
    if options.output:
        write_json(options.output, facts, found)
    return 1 if found.failed else 0


if __name__ == "__main__":
    sys.exit(main())
