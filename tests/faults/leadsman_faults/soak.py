"""Random faults for long, on the stage of the rows: what a collector holds must not grow with what it has seen."""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from leadsman.domain.errors import LeadsmanError
from leadsman_faults import census
from leadsman_faults.census import Census
from leadsman_faults.node import Node
from leadsman_faults.pace import Pace
from leadsman_faults.play import Playing, Tell

GROWTH_MB = 4.0
"""What a Python process that has done the same for long still gains and loses from one minute to the next."""

REST_S = (40.0, 200.0)
FAULT_S = (5.0, 60.0)
"""How long a row is left alone and how long it is broken, at random between these, at the table's period."""

_SAMPLES = 10


@dataclass(frozen=True, slots=True)
class Plan:
    """How long, and the seed from which every row draws its own times."""

    seconds: float
    seed: int


@dataclass(frozen=True, slots=True)
class Soaked:
    """What was done: the number of faults, and words about rows that could not be broken or mended."""

    faults: int
    troubles: tuple[str, ...] = ()


async def soak(playing: Sequence[Playing], nodes: Sequence[Node], plan: Plan, pace: Pace, tell: Tell) -> Soaked:
    """Break and mend every row at random until the time is over; in the end all are mended and reported as well."""
    until = time.monotonic() + plan.seconds
    tell("soak", f"random faults for {plan.seconds / 60:.1f} minutes with seed {plan.seed}")
    watching = asyncio.create_task(_watch(nodes, plan.seconds, tell))
    try:
        done = await asyncio.gather(*(_unsettle(one, plan.seed, pace, until) for one in playing))
    finally:
        watching.cancel()
    await asyncio.gather(*(one.settle() for one in playing))
    restless = [f"{one.row.name}: {one.trouble}" for one in playing if one.trouble]
    return Soaked(sum(count for count, _ in done), (*(words for _, words in done if words), *restless))


def grown(before: Census, after: Census) -> str:
    """Words about memory that has grown beyond noise; empty if it has not."""
    if after.main_mb - before.main_mb <= GROWTH_MB:
        return ""
    return f"memory has grown from {before.main_mb:.1f} to {after.main_mb:.1f} MB"


async def _unsettle(playing: Playing, seed: int, pace: Pace, until: float) -> tuple[int, str]:
    """Break one row again and again; how often, and what went wrong."""
    chance = random.Random(f"{seed}/{playing.row.name}")
    count = 0
    try:
        while True:
            rest, broken = (pace.seconds(chance.uniform(*limits)) for limits in (REST_S, FAULT_S))
            if time.monotonic() + rest + broken > until:
                return count, ""
            await asyncio.sleep(rest)
            await playing.step()
            count += 1
            await asyncio.sleep(broken)
            await playing.step()
    except (LeadsmanError, OSError) as error:
        return count, f"{playing.row.name}: {error}"


async def _watch(nodes: Sequence[Node], seconds: float, tell: Tell) -> None:
    began = time.monotonic()
    while True:
        await asyncio.sleep(seconds / _SAMPLES)
        seen = [census.take(node.collector.pid) for node in nodes]
        held = "; ".join(f"{node.name}: {one.words}" for node, one in zip(nodes, seen, strict=True))
        tell("soak", f"{(time.monotonic() - began) / 60:.1f} min: {held}")
