"""What the gateway answers for a pod: its needs, what the service behind says, and what holds if that one is silent.

Nothing here fails: every way to not know ends in an outcome that is answered, recorded and counted.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

from leadsman.domain.clock import Clock
from leadsman.domain.errors import LeadsmanError
from leadsman.domain.reasons import Reason
from leadsman.domain.requirements import NOWHERE, Near, Profile, Requirement
from leadsman.domain.verdicts import Rejection
from leadsman.telemetry.logs import get_logger
from leadsman.wire.pod import Pod
from leadsman_gateway.hop.answers import ALL_PASS, FilterTable, ScoreTable, none_pass
from leadsman_gateway.hop.client import Held
from leadsman_gateway.hop.kept import Prepared
from leadsman_gateway.metrics import GatewayMetrics
from leadsman_gateway.volumes import Catalogue, Resolution, annotated_near, needs_storage

log = get_logger("gateway")
A = TypeVar("A", bound=Prepared)
A_co = TypeVar("A_co", covariant=True, bound=Prepared)

Outcome = Literal["decided", "fast-path", "no-opinion", "failed-open", "failed-closed"]
OnFailure = Literal["allow", "reject"]

NOT_RESOLVED = Resolution()
_POLICY = "policy"
"""Stands for the driver when a pod without storage is rejected because rules could not be asked."""

_FETCH_SHARE = 0.5
"""Part of the remaining time that reading missing objects may take; the rest is for the hop."""


class Resolver(Protocol):
    """Turns a pod into requirements from memory; see `leadsman_gateway.volumes.VolumeResolver`."""

    def resolve(self, pod: Pod) -> Resolution:
        """What the pod needs, as far as memory tells."""
        ...


class Asked(Protocol[A_co]):
    """A service behind the gateway; see `leadsman_gateway.hop.client.HopClient`."""

    def selects(self, profile: Profile) -> bool:
        """Whether a rule touches such a pod, so that it must be asked about even without storage."""
        ...

    async def ask(
        self, profile: Profile, requirements: Iterable[Requirement], deadline: float, near: Near = NOWHERE
    ) -> Held[A_co]:
        """The answer by `deadline` on the monotonic clock; raises a LeadsmanError if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Ruling(Generic[A]):
    """What holds for one pod: `answer` is ready to be applied to candidates, None if there is no opinion.

    `policy` is the fingerprint of the policy behind it, `degraded` what its giver could not do as it should.
    """

    outcome: Outcome
    answer: A | None = None
    resolution: Resolution = NOT_RESOLVED
    instance: str = ""
    generation: int = 0
    policy: str = ""
    degraded: tuple[str, ...] = ()


FAST_PATH: Ruling[FilterTable] = Ruling("fast-path", ALL_PASS)
FAST_PATH_SCORES: Ruling[ScoreTable] = Ruling("fast-path")


class Decider:
    """Asks the services behind the gateway, within a deadline on the monotonic clock."""

    def __init__(
        self,
        resolver: Resolver,
        catalogue: Catalogue,
        filters: Asked[FilterTable],
        scorers: Asked[ScoreTable],
        *,
        on_failure: OnFailure,
        clock: Clock,
        metrics: GatewayMetrics,
    ) -> None:
        self._resolver = resolver
        self._catalogue = catalogue
        self._filters = filters
        self._scorers = scorers
        self._on_failure = on_failure
        self._clock = clock
        self._metrics = metrics
        self.closed_answers = 0
        self._dry_run = False  # the mode that the filter's policy was in when it last answered

    async def verdicts(self, pod: Pod, deadline: float) -> Ruling[FilterTable]:
        """Which nodes may take `pod`; the answer is never None."""
        profile = _profile(pod)
        selected = self._filters.selects(profile)
        if not selected and not needs_storage(pod):
            return FAST_PATH
        resolution = await self._resolve(pod, deadline)
        if not selected and not resolution.requirements:
            return Ruling("no-opinion", ALL_PASS, resolution)
        held = await self._ask(self._filters, pod, profile, resolution, deadline)
        if held is not None:
            self._dry_run = held.answer.dry_run
            return _decided(held, resolution)
        if self._on_failure == "allow":
            return Ruling("failed-open", ALL_PASS, resolution)
        self.closed_answers += not self._dry_run
        rejection = _unavailable(resolution.requirements)
        return Ruling("failed-closed", none_pass(rejection, dry_run=self._dry_run), resolution)

    async def scores(self, pod: Pod, deadline: float) -> Ruling[ScoreTable]:
        """How well nodes suit `pod`; no answer means that kube-scheduler is left to its own scores."""
        profile = _profile(pod)
        selected = self._scorers.selects(profile) or (annotated_near(pod) or NOWHERE) != NOWHERE
        if not selected and not needs_storage(pod):
            return FAST_PATH_SCORES
        resolution = await self._resolve(pod, deadline)
        if not selected and not resolution.requirements:
            return Ruling("no-opinion", None, resolution)
        held = await self._ask(self._scorers, pod, profile, resolution, deadline)
        if held is None:
            return Ruling("failed-open", None, resolution)
        return _decided(held, resolution)

    async def _resolve(self, pod: Pod, deadline: float) -> Resolution:
        """The pod's needs; objects that memory lacks are read once, as long as time allows."""
        try:
            resolution = self._resolver.resolve(pod)
            left = deadline - self._clock.monotonic()
            if resolution.missing and left > 0 and await self._fetch(resolution, left * _FETCH_SHARE):
                resolution = self._resolver.resolve(pod)
        except Exception:
            self._metrics.internal_errors.labels("resolve").inc()
            log.exception("volumes not resolved, no opinion", pod=pod.metadata.name, namespace=pod.metadata.namespace)
            return Resolution(unresolved=tuple(volume.name for volume in pod.spec.volumes or ()))
        if resolution.unresolved:
            self._metrics.unresolved.inc(len(resolution.unresolved))
        return resolution

    async def _fetch(self, resolution: Resolution, patience: float) -> bool:
        try:
            async with asyncio.timeout(patience):
                return await self._catalogue.fetch(resolution.missing)
        except TimeoutError:
            self._metrics.fetch_timeouts.inc()
            return False

    async def _ask(
        self, client: Asked[A], pod: Pod, profile: Profile, resolution: Resolution, deadline: float
    ) -> Held[A] | None:
        try:
            return await client.ask(profile, resolution.requirements, deadline, resolution.near)
        except LeadsmanError:  # the link has logged and counted why; the outcome is counted with the request
            return None
        except Exception:
            self._metrics.internal_errors.labels("hop").inc()
            log.exception("asking over the hop failed", pod=pod.metadata.name, namespace=pod.metadata.namespace)
            return None


def _decided(held: Held[A], resolution: Resolution) -> Ruling[A]:
    return Ruling("decided", held.answer, resolution, held.instance, held.generation, held.policy, held.degraded)


def _profile(pod: Pod) -> Profile:
    meta = pod.metadata
    return Profile(meta.namespace, meta.labels or {}, pod.spec.priority_class_name, meta.annotations or {})


def _unavailable(requirements: tuple[Requirement, ...]) -> Rejection:
    drivers = sorted(need.driver for need in requirements)
    return Rejection(Reason.VERDICT_UNAVAILABLE, drivers[0] if drivers else _POLICY)
