"""All chosen rows on one stage, at the same time."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from leadsman.domain.states import State
from leadsman_faults import census
from leadsman_faults.census import Census
from leadsman_faults.errors import StageError
from leadsman_faults.node import CALM, Node
from leadsman_faults.pace import Pace
from leadsman_faults.play import Playing, Result, Tell, Verdict
from leadsman_faults.row import Row, why_not_here
from leadsman_faults.soak import Plan, Soaked, grown, soak
from leadsman_faults.stage import Stage

_CALM_S = 25.0
"""How long a node may need to be as calm as before."""

_SAMPLE_S = 2.0
"""How long a node is looked at to find it between two looks, and again as much at the table's period."""

Done = Callable[[Result], None]
"""Called with each row as soon as it has ended."""


@dataclass(frozen=True, slots=True)
class NodeResult:
    """What became of one node's collector over the whole run; `troubles` is empty if all is well."""

    name: str
    before: Census
    after: Census
    troubles: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """For people."""
        return f"{self.name}: before {self.before.words}; after {self.after.words}"


@dataclass(frozen=True, slots=True)
class Session:
    """A whole run: what became of the nodes while the rows were played, and in the soak after that if there was one."""

    nodes: tuple[NodeResult, ...] = ()
    soaked: Soaked | None = None
    soaked_nodes: tuple[NodeResult, ...] = ()

    @property
    def troubles(self) -> list[str]:
        """Everything that went wrong beside the rows."""
        judged = [*self.nodes, *self.soaked_nodes]
        found = [f"{node.name}: {trouble}" for node in judged for trouble in node.troubles]
        return found + [f"soak: {trouble}" for trouble in (self.soaked.troubles if self.soaked else ())]


async def play_all(
    rows: Sequence[Row], pace: Pace, tell: Tell, done: Done, *, logs: Path | None = None, plan: Plan | None = None
) -> Session:
    """Play `rows`, every result going to `done` when there is one, and then soak by `plan`.

    The logs of all processes are copied to the folder `logs`.

    Raises:
        LeadsmanError: the stage cannot be built.
    """
    playable = []
    for row in rows:
        why = why_not_here(row, pace.period_s)
        if why:
            done(Result(row, Verdict.NOT_HERE, words=why))
        else:
            playable.append(row)
    if not playable:
        return Session()
    async with Stage(pace, dict.fromkeys(row.group for row in playable), logs) as stage:
        return await _on_stage(stage, playable, tell, done, plan)


async def _on_stage(stage: Stage, rows: Sequence[Row], tell: Tell, done: Done, plan: Plan | None) -> Session:
    nodes = list(stage.nodes.values())
    for node in nodes:
        await node.plugin(CALM.driver).start()
    playing = [Playing(row, stage.nodes[row.group], tell) for row in rows]
    await asyncio.gather(*(one.prepare() for one in playing))
    tell("stage", f"{len(rows)} rows are set up; starting {len(nodes)} collectors")
    await stage.start_collectors()
    await asyncio.gather(*(one.settle() for one in playing))
    before = await asyncio.gather(*map(_calmest, nodes))
    tell("stage", "everything is reported as well; breaking it")

    async def play(one: Playing) -> None:
        done(await one.play())

    await asyncio.gather(*map(play, playing))
    judged = await asyncio.gather(*(_judge(node, then, tell) for node, then in zip(nodes, before, strict=True)))
    if plan is None:
        return Session(tuple(judged))
    soakable = [one for one in playing if not one.trouble and one.row.soakable]
    soaked = await soak(soakable, nodes, plan, stage.pace, tell)
    then = (result.after for result in judged)
    again = await asyncio.gather(*(_judge_soaked(node, was, tell) for node, was in zip(nodes, then, strict=True)))
    return Session(tuple(judged), soaked, tuple(again))


async def _judge_soaked(node: Node, before: Census, tell: Tell) -> NodeResult:
    """As `_judge`, and its memory too: the rows before have warmed it up."""
    result = await _judge(node, before, tell)
    words = grown(before, result.after)
    return replace(result, troubles=(*result.troubles, words)) if words else result


async def _calmest(node: Node) -> Census:
    return await asyncio.to_thread(census.calmest, node.collector.pid, _SAMPLE_S + node.pace.seconds(_SAMPLE_S))


async def _judge(node: Node, before: Census, tell: Tell) -> NodeResult:
    """Compare a node with what it was before anything was broken."""
    after = await _calmest(node)
    deadline = time.monotonic() + _CALM_S
    while after.exceeds(before, node.spare_descriptors) and time.monotonic() < deadline:
        tell(node.name, f"not yet as calm as before: {after.words}; before: {before.words}")
        after = await _calmest(node)
    troubles = []
    if after.exceeds(before, node.spare_descriptors):
        troubles.append(f"holds more than before: {after.words}; before: {before.words}")
    troubles += _calm_troubles(node) + await _own_troubles(node)
    return NodeResult(node.name, before, after, tuple(troubles))


def _calm_troubles(node: Node) -> list[str]:
    history = node.watch.of_key(CALM)
    first = next((number for number, seen in enumerate(history) if seen.state is State.HEALTHY), None)
    if first is None:
        return [f"{CALM} was never HEALTHY"]
    return [f"{CALM}, to which nothing was done, was called {seen.words}" for seen in history[first + 1 :]]


async def _own_troubles(node: Node) -> list[str]:
    """Bugs that the collector itself has noticed, and ends that it should not have come to."""
    if not node.collector.alive:
        return [f"the collector has ended:\n{node.collector.process.log_tail()}"]
    troubles = []
    try:
        page = await node.collector.metrics()
    except StageError as error:
        return [str(error)]
    for line in page.splitlines():
        if line.startswith("leadsman_collector_internal_errors_total{") and not line.endswith(" 0.0"):
            troubles.append(f"the collector counts bugs of its own: {line}")
    if "Traceback" in node.collector.process.log.read_text(encoding="utf-8", errors="replace"):
        troubles.append(f"there is a traceback in {node.collector.process.log}")
    return troubles
