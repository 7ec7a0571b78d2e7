"""Break storage in every way this machine can, all at once, and time how the collector tells and forgets it.

What runs: a real collector per group of faults, with a real nats-server; storage servers in a network namespace of
their own; FUSE filesystems, loop devices, CSI drivers. Everything lives in namespaces that end with this program. It
needs root, and for all rows the packages nftables, xfsprogs, nfs-ganesha and nfs-ganesha-vfs.

The table goes to standard output, progress to standard error. Exit status 1: something was missed.
"""

import argparse
import asyncio
import json
import secrets
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from leadsman.domain.errors import LeadsmanError
from leadsman_faults import isolation, table
from leadsman_faults.errors import StageError
from leadsman_faults.pace import SHIPPED, SHORT, Pace, with_period
from leadsman_faults.play import Result, Verdict
from leadsman_faults.row import Row, chosen
from leadsman_faults.rows import ALL
from leadsman_faults.session import Session, play_all
from leadsman_faults.soak import Plan

_BEGIN, _END = "<!-- table: begin -->", "<!-- table: end -->"


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="TEXT", default="", help="only rows whose name contains TEXT, or one group")
    parser.add_argument("--list", action="store_true", help="print the names of all rows and what is expected")
    parser.add_argument(
        "--period", type=float, default=SHIPPED.period_s, metavar="S", help="the collector's --period (default 10)"
    )
    parser.add_argument("--short", action="store_true", help=f"as in make test: a period of {SHORT.period_s:g} s")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="replace the table in this document")
    parser.add_argument("--events", type=Path, metavar="FILE", help="append every result as a line of JSON")
    parser.add_argument(
        "--soak", type=float, default=0.0, metavar="MINUTES", help="then break everything at random for so long"
    )
    parser.add_argument("--seed", type=int, help="of the soak; by default another one each time, which is printed")
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="keep the logs of all processes here")
    return parser.parse_args(arguments)


class Report:
    """Tells of rows as they end."""

    def __init__(self, events: Path | None) -> None:
        self.results: list[Result] = []
        self._events = events
        self._began = time.monotonic()

    def tell(self, name: str, words: str) -> None:
        """Progress."""
        print(f"{time.monotonic() - self._began:6.1f} s  {name:<22} {words}", file=sys.stderr, flush=True)

    def done(self, result: Result) -> None:
        """A row has ended."""
        self.results.append(result)
        if result.verdict is not Verdict.NOT_HERE:
            self.tell(result.row.name, f"{result.verdict}{': ' if result.words else ''}{result.words}")
        self._event({"row": result.row.name, "verdict": result.verdict, "words": result.words})

    def in_order(self) -> list[Result]:
        """The results in the order of the table."""
        order = {row.name: number for number, row in enumerate(ALL)}
        return sorted(self.results, key=lambda result: order[result.row.name])

    def ended(self, session: Session) -> None:
        """All rows, and the soak if any, have ended."""
        for kind, nodes in (("node", session.nodes), ("soaked node", session.soaked_nodes)):
            for node in nodes:
                self._event({kind: node.name, "troubles": list(node.troubles), "words": node.words})
        if session.soaked:
            self._event({"soak": "all", "faults": session.soaked.faults, "troubles": list(session.soaked.troubles)})

    def _event(self, event: dict[str, object]) -> None:
        if self._events:
            with self._events.open("a", encoding="utf-8") as file:
                file.write(json.dumps(event) + "\n")


def show(report: Report, session: Session, pace: Pace) -> bool:
    """Print the table; whether nothing was missed."""
    results = report.in_order()
    print(table.plain(results))
    print(f"\n{table.summary(results, pace)}")
    for node in session.nodes:
        print(node.words)
    if session.soaked:
        print(f"\nsoak: {session.soaked.faults} random faults")
        for node in session.soaked_nodes:
            print(node.words)
    missed = [f"{result.row.name}: {result.words}" for result in results if result.verdict is Verdict.MISS]
    missed += session.troubles
    if missed:
        print("\nMissed:\n  " + "\n  ".join(missed))
    return not missed


def write_markdown(path: Path, report: Report, session: Session, pace: Pace) -> None:
    """Replace what stands between the two marks in the document `path`."""
    text = path.read_text(encoding="utf-8")
    head, found, rest = text.partition(_BEGIN)
    _, found_end, tail = rest.partition(_END)
    if not found or not found_end:
        raise StageError(f"{path} has no {_BEGIN} and {_END} to put the table between")
    results = report.in_order()
    held = "\n".join(f"- {node.words}" for node in session.nodes)
    body = f"{table.markdown(results)}\n\n{table.summary(results, pace)}. What the collectors held:\n\n{held}"
    path.write_text(f"{head}{_BEGIN}\n\n{body}\n\n{_END}{tail}", encoding="utf-8")


async def play(rows: Sequence[Row], pace: Pace, report: Report, logs: Path | None, plan: Plan | None) -> Session:
    """Play `rows`; SIGTERM ends that as Ctrl-C does, and the stage is taken down all the same."""
    whole = asyncio.ensure_future(play_all(rows, pace, report.tell, report.done, logs=logs, plan=plan))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, whole.cancel)
    return await whole


def main() -> int:
    """Entry point. The exit status is 1 for a miss, 2 when this machine cannot do it at all."""
    options = parse(sys.argv[1:])
    rows = chosen(ALL, options.only)
    if options.list or not rows:
        for row in rows or ALL:
            print(f"{row.name:<22} {row.fault:<58} {row.absent or row.wanted}")
        return 0 if rows else 2
    why = isolation.why_impossible()
    if why:
        print(f"error: {why}", file=sys.stderr)
        return 2
    isolation.enter()
    pace = SHORT if options.short else with_period(options.period)
    report = Report(options.events)
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    plan = Plan(options.soak * 60, seed) if options.soak > 0 else None
    try:
        session = asyncio.run(play(rows, pace, report, options.logs, plan))
        report.ended(session)
        fine = show(report, session, pace)
        if options.markdown:
            write_markdown(options.markdown, report, session, pace)
    except LeadsmanError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("error: interrupted; everything has been taken down", file=sys.stderr)
        return 130
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
