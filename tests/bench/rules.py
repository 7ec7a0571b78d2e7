"""Measure what policy rules cost at 5,000 nodes: a request, a report, and a reload, for 0 to 100 rules in one run.

What runs: a real nats-server; filter, scorer and gateway as shipped, under one policy file that is replaced again and
again while they work; beside them Go extenders that hold the same verdicts and scores in memory; a feeder that plays
the collectors of 5,000 nodes, 500 reports a second with loads that move and labels that stay.

`N rules` are N that require (in the filter) and N that prefer (in the scorer), half on labels, half in CEL on the CPU
load. Half of them select the pod, with `all match` all of them. Under every policy with rules they reject the same
200 nodes and weigh the same in all. Both servers must give the same right answers before anything is timed, and every
timed answer must have the size of the right one.

Ratios are to Go in the same bursts, and to ourselves under one rule in the same round; medians over rounds. Around
every reload calls go on, and each must be answered right by the policy before or after. Linux only.
"""

import argparse
import dataclasses
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from leadsman.domain.errors import LeadsmanError
from leadsman_bench import build, machine, rule_table
from leadsman_bench.build import report
from leadsman_bench.load import LoadError
from leadsman_bench.rule_run import CASES, Measured, Settings, run
from run import stop_on_sigterm

EPILOG = """\
It takes about 5 minutes, with --rounds 1 a third of that; the first time half a minute more, to build. Needs Go and a C
compiler.
"""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="how often each policy has its turn (3)")
    parser.add_argument("--only", metavar="TEXT", default="", help="only cases whose name contains TEXT")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write every figure as JSON")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    return options


def choose(*, only: str, rounds: int) -> Settings:
    """What to measure."""
    chosen = [case for case in CASES if only in case.name]
    if not chosen:
        names = "\n  ".join(case.name for case in CASES)
        raise SystemExit(f"error: no case contains {only!r}; the cases are\n  {names}")
    return Settings(chosen, rounds)


def show(facts: dict[str, str], found: Measured, rounds: int) -> None:
    """Print the tables."""
    print("\n".join(f"{name:<12} {value}" for name, value in facts.items()))
    print(
        f"\nMilliseconds; x = Leadsman / Go extender, / 1 rule = Leadsman / Leadsman; medians of {rounds} round(s).\n"
    )
    print(rule_table.requests(found.pairs))
    print("\n" + rule_table.others(found))
    print("\n" + rule_table.calls(found))


def write_json(path: Path, facts: dict[str, str], found: Measured) -> None:
    """Write every figure of every round."""
    document = {
        "machine": facts,
        "requests": [
            {"case": case.name, "rules": policy.name, "rounds": [dataclasses.asdict(pair) for pair in pairs]}
            for (case, policy), pairs in found.pairs.items()
        ],
        "report_us": [
            {"service": name, "rules": policy.name, "rounds": costs}
            for (name, policy), costs in found.report_us.items()
        ],
        "reloads": [
            {"rules": policy.name, "rounds": [dataclasses.asdict(reload) for reload in reloads]}
            for policy, reloads in found.reloads.items()
        ],
    }
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def measure(options: argparse.Namespace) -> bool:
    """Build, measure and show; whether no call was lost around reloads."""
    settings = choose(only=options.only, rounds=options.rounds)
    toolchain = build.find_toolchain()
    artefacts = build.provide(toolchain, os.environ)
    facts = machine.facts(toolchain, 100)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="leadsman-rules-") as folder:
        found = run(Path(folder) / "run", artefacts, settings)
    report(f"done in {time.monotonic() - began:.0f} s\n")
    show(facts, found, options.rounds)
    if options.output:
        write_json(options.output, facts, found)
    return not any(watched.failures for watched in found.watched)


def main() -> int:
    """Entry point. The exit status is 1 for a failed run or a lost call, 2 when something is missing."""
    options = parse(sys.argv[1:])
    stop_on_sigterm()
    try:
        return 0 if measure(options) else 1
    except build.MissingToolError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (build.BuildError, LoadError, LeadsmanError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("error: interrupted; every process has been stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
