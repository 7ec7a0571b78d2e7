"""The process around a hop service: composition, readiness, and a clean end."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from nats.aio.msg import Msg
from prometheus_client import CollectorRegistry

from leadsman.bus.connect import Bus, BusSettings
from leadsman.bus.subjects import POLICY
from leadsman.domain.changes import ChangeCounter
from leadsman.domain.fact_index import FactIndex
from leadsman.domain.health_index import HealthIndex
from leadsman.domain.policy import SchedulingPolicy
from leadsman.domain.requirements import Question
from leadsman.runtime.admin import AdminRoutes, Check
from leadsman.runtime.app import Shutdown, run_until_shutdown
from leadsman.runtime.grpc_server import GrpcServer
from leadsman.runtime.hop.answers import MAX_VOLUME_BYTES, AnswerCache, RenderVolumes, Volumes
from leadsman.runtime.hop.node_cache import NodeCache
from leadsman.runtime.hop.service import HopMethod, HopService, InForce
from leadsman.runtime.hop.view import View, fill_in_slices
from leadsman.runtime.http import HttpServer
from leadsman.runtime.options import Address
from leadsman.runtime.policy_file import PolicyFile
from leadsman.runtime.ports import write_ports
from leadsman.runtime.process import freeze_heap, tune_process
from leadsman.telemetry.logs import get_logger
from leadsman.telemetry.metrics import service_registry
from leadsman.wire.notices import PolicyInForce, encode_notice

DRAIN_S = 5.0
"""How long open requests may take to finish once the process is told to stop."""

SYNC_POLL_S = 0.02
"""How often a starting service looks whether its cache is complete."""

log = get_logger("hop")


@dataclass(frozen=True, slots=True)
class HopSettings:
    """What the command line says; without a `policy_file` the built-in policy holds."""

    listen: Address
    admin_listen: Address
    bus: BusSettings
    policy_file: Path | None = None
    port_file: Path | None = None
    stream_settle_s: float = 0.0


@dataclass(frozen=True, slots=True)
class HopParts:
    """What a service may build on: the cache, the bus, this start's name, when it begins to answer, and metrics.

    `in_force` holds the policy and the view that answer now; `policy_changed` are called after they were replaced.
    """

    cache: NodeCache
    bus: Bus
    in_force: InForce
    instance: str
    opened: asyncio.Event
    registry: CollectorRegistry
    policy_changed: list[Callable[[], None]]


Extras = Callable[[HopParts], dict[str, Awaitable[None]]]
"""Adds what one service has beyond the other; returns its eternal tasks by name."""


@dataclass(frozen=True, slots=True)
class HopDefinition:
    """What makes a service the filter or the scorer; `volumes` is None where single volumes mean nothing."""

    method: HopMethod
    make_view: Callable[[HealthIndex, FactIndex, ChangeCounter, SchedulingPolicy], View]
    extras: Extras
    volumes: RenderVolumes | None = None


async def serve_hop(shutdown: Shutdown, definition: HopDefinition, settings: HopSettings) -> None:
    """Run the whole service until shutdown; every open request is answered before it returns.

    Raises:
        DocumentError: the policy file cannot be used.
        ListenError: an address is taken.
        ExceptionGroup: a task of the service failed.
    """
    tune_process()
    await HopProcess(definition, settings).run(shutdown)


class HopProcess:
    """All parts of one filter or scorer."""

    def __init__(self, definition: HopDefinition, settings: HopSettings) -> None:
        self._definition = definition
        self._settings = settings
        component = definition.method.component
        registry = service_registry(component)
        bus = Bus(settings.bus, registry)
        self._file = PolicyFile(settings.policy_file, clock=bus.clock, registry=registry)
        policy = self._file.policy
        cache = NodeCache(
            bus, policy.storage, clock=bus.clock, registry=registry, stream_settle_s=settings.stream_settle_s
        )
        self._parts = HopParts(
            cache,
            bus,
            InForce(policy, definition.make_view(cache.index, cache.facts, cache.changes, policy)),
            f"{component}-{secrets.token_hex(6)}",
            asyncio.Event(),
            registry,
            [],
        )
        self._answers = self._make_answers()
        self._service = self._make_service()
        self._server = GrpcServer(settings.listen, definition.method.service, self._service.handler())
        self._admin = self._make_admin()

    async def run(self, shutdown: Shutdown) -> None:
        """Serve until shutdown; see `serve_hop`."""
        parts = self._parts
        await self._listen()
        try:
            tasks = {
                "bus": parts.bus.run(),
                "cache": parts.cache.keep_in_step(),
                "ageing": parts.cache.keep_ageing(),
                "policy": self._file.run(self._take),
                "admin": self._admin.run_forever(),
                "opening": self._open_when_synced(),
                **self._definition.extras(parts),
            }
            await self._answer_about_policy()
            await run_until_shutdown(shutdown, tasks)
        finally:
            await self._server.set_serving(serving=False)
            await self._service.drain(DRAIN_S)
            await self._server.stop()
            await parts.bus.close()

    async def _take(self, policy: SchedulingPolicy) -> None:
        """Bring a new policy in force: worked out beside the old one, then swapped in one turn of the event loop."""
        parts, cache = self._parts, self._parts.cache
        view = self._definition.make_view(cache.index, cache.facts, cache.changes, policy)
        try:
            await fill_in_slices(view)
        except BaseException:
            view.close()
            raise
        old = parts.in_force.view
        cache.adopt(policy.storage)
        parts.in_force.policy, parts.in_force.view = policy, view
        old.close()
        self._answers.clear()
        self._service.say_hello_again()
        for tell in parts.policy_changed:
            tell()

    async def _answer_about_policy(self) -> None:
        """Let people ask on the bus which policy this replica works by."""

        async def answer(message: Msg) -> None:
            if not message.reply:
                return
            file = self._file
            notice = PolicyInForce(
                self._parts.instance,
                self._definition.method.component,
                file.policy.fingerprint,
                file.text,
                file.refused,
            )
            await self._parts.bus.publish(message.reply, encode_notice(notice))

        await self._parts.bus.subscribe(POLICY, answer)

    def _make_answers(self) -> AnswerCache[Question]:
        return AnswerCache(self._parts.cache.changes, self._render, self._generation)

    def _render(self, question: Question) -> bytes:
        return self._parts.in_force.view.render(question)

    def _generation(self, question: Question) -> int:
        return self._parts.in_force.view.generation(question)

    def _make_service(self) -> HopService:
        parts, file = self._parts, self._file
        return HopService(
            self._definition.method,
            parts.in_force,
            self._answers,
            index=parts.cache.index,
            volumes=self._volume_answers(),
            opened=parts.opened,
            instance=parts.instance,
            frozen=lambda: parts.cache.frozen,
            degraded=lambda: [*parts.cache.degraded, "policyRefused"] if file.refused else parts.cache.degraded,
            registry=parts.registry,
        )

    def _volume_answers(self) -> AnswerCache[Volumes] | None:
        render, index = self._definition.volumes, self._parts.cache.index
        if render is None:
            return None
        return AnswerCache(
            self._parts.cache.changes,
            lambda volumes: render(index, volumes),
            index.generation_of_volumes,
            max_bytes=MAX_VOLUME_BYTES,
        )

    def _make_admin(self) -> HttpServer:
        server = self._server
        checks = [
            *self._parts.cache.checks(),
            self._file.check(),
            Check("grpc", lambda: (server.listening, str(server.address))),
        ]
        routes = AdminRoutes(self._definition.method.component, self._parts.registry, checks)
        listen = self._settings.admin_listen
        return HttpServer(routes, listen.host, listen.port)

    async def _listen(self) -> None:
        await self._admin.listen()
        await self._server.listen()
        admin_address = Address(self._settings.admin_listen.host, self._admin.port)
        if self._settings.port_file:
            write_ports(self._settings.port_file, {"grpc": self._server.address.port, "admin": self._admin.port})
        log.info(
            "listening",
            grpc=str(self._server.address),
            admin=str(admin_address),
            instance=self._parts.instance,
            policy=self._parts.in_force.policy.fingerprint,
        )

    async def _open_when_synced(self) -> None:
        parts = self._parts
        while not parts.cache.synced:  # noqa: ASYNC110 - the replica has a flag, no event; over in a moment
            await asyncio.sleep(SYNC_POLL_S)
        parts.cache.tick()
        freeze_heap()
        parts.opened.set()
        await self._server.set_serving(serving=True)
        log.info("ready", nodes=parts.cache.index.nodes)
        await asyncio.Event().wait()
