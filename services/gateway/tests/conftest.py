"""Parts of a gateway with doubles at its edges: a hop, a catalogue and a bus that a test scripts."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from leadsman.domain.clock import SystemClock
from leadsman.domain.errors import LeadsmanError
from leadsman.domain.pod_selectors import PodSelector, SelectorSet
from leadsman.domain.requirements import Near, Profile, Requirement
from leadsman_gateway.decider import Decider
from leadsman_gateway.hop.client import Held
from leadsman_gateway.metrics import GatewayMetrics
from leadsman_gateway.volumes import Resolution

NEED = Requirement("nfs.csi.k8s.io", "nas-a")


class ScriptedHop:
    """Answers with a table, or raises."""

    def __init__(
        self, answer: Any = None, *, selectors: tuple[PodSelector, ...] = (), error: Exception | None = None
    ) -> None:
        self.answer = answer
        self.selectors = SelectorSet(selectors)
        self.error = error
        self.asked: list[tuple[Requirement, ...]] = []
        self.near: list[Near] = []
        self.deadlines: list[float] = []

    def selects(self, profile: Profile) -> bool:
        return bool(self.selectors.matching(profile))

    async def ask(self, profile: Profile, requirements: Any, deadline: float, near: Near) -> Held[Any]:
        self.asked.append(tuple(requirements))
        self.near.append(near)
        self.deadlines.append(deadline)
        if self.error is not None:
            raise self.error
        if self.answer is None:
            raise LeadsmanError("nobody answers")
        return Held("one", 3, self.answer, "p1", ("blind",))


class ScriptedVolumes:
    """Resolver and catalogue in one: gives resolutions one after another; the last one stays."""

    def __init__(self, *resolutions: Resolution, fetch_s: float = 0.0, error: Exception | None = None) -> None:
        self.resolutions = list(resolutions)
        self.fetch_s = fetch_s
        self.error = error
        self.fetched: list[Any] = []

    def resolve(self, pod: Any) -> Resolution:
        if self.error is not None:
            raise self.error
        return self.resolutions.pop(0) if len(self.resolutions) > 1 else self.resolutions[0]

    async def fetch(self, refs: Any) -> bool:
        self.fetched.append(tuple(refs))
        await asyncio.sleep(self.fetch_s)
        return True


class Bench:
    """A decider and what stands around it."""

    def __init__(self, volumes: ScriptedVolumes, hop: ScriptedHop, on_failure: Any) -> None:
        self.registry = CollectorRegistry()
        self.clock = SystemClock()
        self.metrics = GatewayMetrics(self.registry)
        self.decider = Decider(
            volumes,
            volumes,  # type: ignore[arg-type]
            hop,
            hop,
            on_failure=on_failure,
            clock=self.clock,
            metrics=self.metrics,
        )

    def deadline(self, seconds: float = 1.0) -> float:
        return self.clock.monotonic() + seconds

    def value(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(f"leadsman_gateway_{name}", labels) or 0.0


@pytest.fixture
def bench() -> Callable[..., Bench]:
    """Makes a decider over scripted volumes and a scripted hop."""

    def make(
        *resolutions: Resolution,
        answer: Any = None,
        selectors: tuple[PodSelector, ...] = (),
        hop_error: Exception | None = None,
        fetch_s: float = 0.0,
        resolve_error: Exception | None = None,
        on_failure: str = "allow",
    ) -> Bench:
        volumes = ScriptedVolumes(*(resolutions or [Resolution((NEED,))]), fetch_s=fetch_s, error=resolve_error)
        hop = ScriptedHop(answer, selectors=selectors, error=hop_error)
        made = Bench(volumes, hop, on_failure)
        made.volumes, made.hop = volumes, hop  # type: ignore[attr-defined]
        return made

    return make
