"""An extender over the recorded cluster's volumes, with a filter and a scorer whose answers stand in this file."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from leadsman.domain.clock import SystemClock
from leadsman.domain.reasons import Reason
from leadsman.domain.requirements import NOWHERE, Near, Profile, Requirement
from leadsman.domain.verdicts import FilterAnswer, Rejection, ScoreAnswer
from leadsman_gateway.decider import Decider
from leadsman_gateway.extender import Extender
from leadsman_gateway.hop.answers import FilterTable, ScoreTable
from leadsman_gateway.hop.client import Held
from leadsman_gateway.metrics import GatewayMetrics
from leadsman_gateway.volumes import ManifestCatalogue, VolumeResolver

HERE = Path(__file__).parent

BROKEN = {
    "nfs.csi.k8s.io": {"worker-002.example.net": Reason.MOUNT_HUNG},
    "csi.example.com": {"ip-10-20-0-13.eu-west-1.compute.internal": Reason.DRIVER_NOT_RESPONDING},
    "kubernetes.io/nfs": {"ip-10-20-0-11.eu-west-1.compute.internal": Reason.ENDPOINT_TIMEOUT},
    "ebs.csi.aws.com": {"worker-004.example.net": Reason.DRIVER_NOT_REGISTERED},
}
"""What the filter knows: driver to its broken nodes."""

SCORES = {"ip-10-20-0-11.eu-west-1.compute.internal": 10, "worker-002.example.net": 0, "worker-004.example.net": 7}
"""What the scorer knows; every other node gets 5."""


class FixedFilter:
    """Rejects what BROKEN says."""

    def selects(self, profile: Profile) -> bool:
        return False

    async def ask(
        self, profile: Profile, requirements: Iterable[Requirement], deadline: float, near: Near = NOWHERE
    ) -> Held[FilterTable]:
        rejected = {
            node: Rejection(reason, need.driver)
            for need in sorted(requirements, reverse=True)
            for node, reason in BROKEN.get(need.driver, {}).items()
        }
        return Held("filter-1", 1, FilterTable(FilterAnswer(rejected)))


class FixedScorer:
    """Scores as SCORES says."""

    def selects(self, profile: Profile) -> bool:
        return False

    async def ask(
        self, profile: Profile, requirements: Iterable[Requirement], deadline: float, near: Near = NOWHERE
    ) -> Held[ScoreTable]:
        return Held("scorer-1", 1, ScoreTable(ScoreAnswer(tuple(SCORES), bytes(SCORES.values()), 5)))


@pytest.fixture(scope="session")
def catalogue() -> ManifestCatalogue:
    """The recorded cluster's volumes, read once."""
    catalogue = ManifestCatalogue(HERE / "cluster", registry=CollectorRegistry())

    async def read() -> None:
        reading = asyncio.create_task(catalogue.run())
        async with asyncio.timeout(5):
            while not catalogue.synced:  # noqa: ASYNC110 - there is a flag and no event
                await asyncio.sleep(0.01)
        reading.cancel()
        await asyncio.wait({reading})

    asyncio.run(read())
    return catalogue


@pytest.fixture
def extender(catalogue: Any) -> Extender:
    """The extender with everything real but the hop."""
    clock, metrics = SystemClock(), GatewayMetrics(CollectorRegistry())
    decider = Decider(
        VolumeResolver(catalogue, {}),
        catalogue,
        FixedFilter(),
        FixedScorer(),
        on_failure="allow",
        clock=clock,
        metrics=metrics,
    )
    return Extender(decider, deadline_s=5.0, clock=clock, metrics=metrics)


@pytest.fixture
def answer(extender: Any) -> Any:
    """Calls a verb with a body and gives the answer's bytes."""

    async def call(verb: str, body: bytes) -> bytes:
        handler = {"filter": extender.filter, "prioritize": extender.prioritize, "preempt": extender.preempt}[verb]
        reply: bytes = (await handler(body, SystemClock().monotonic()))[0]
        return reply

    return call
