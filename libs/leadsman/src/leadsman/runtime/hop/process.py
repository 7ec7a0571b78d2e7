"""The process around a hop service: composition, readiness, and a clean end."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry

from leadsman.bus.connect import Bus, BusSettings
from leadsman.domain.health_index import HealthIndex
from leadsman.domain.storage_policy import StoragePolicy
from leadsman.runtime.admin import AdminRoutes, Check
from leadsman.runtime.app import Shutdown, run_until_shutdown
from leadsman.runtime.grpc_server import GrpcServer
from leadsman.runtime.hop.answers import MAX_VOLUME_BYTES, AnswerCache, Render, RenderVolumes, Volumes
from leadsman.runtime.hop.health_cache import HealthCache
from leadsman.runtime.hop.service import HopMethod, HopService
from leadsman.runtime.http import HttpServer
from leadsman.runtime.options import Address
from leadsman.runtime.ports import write_ports
from leadsman.runtime.process import freeze_heap, tune_process
from leadsman.telemetry.logs import get_logger
from leadsman.telemetry.metrics import service_registry

DRAIN_S = 5.0
"""How long open requests may take to finish once the process is told to stop."""

SYNC_POLL_S = 0.02
"""How often a starting service looks whether its cache is complete."""

log = get_logger("hop")


@dataclass(frozen=True, slots=True)
class HopSettings:
    """What the command line says."""

    listen: Address
    admin_listen: Address
    bus: BusSettings
    policy: StoragePolicy
    port_file: Path | None = None
    stream_settle_s: float = 0.0


@dataclass(frozen=True, slots=True)
class HopParts:
    """What a service may build on: the cache, the bus, this start's name, when it begins to answer, and metrics."""

    cache: HealthCache
    bus: Bus
    instance: str
    opened: asyncio.Event
    registry: CollectorRegistry


Extras = Callable[[HopParts], dict[str, Awaitable[None]]]
"""Adds what one service has beyond the other; returns its eternal tasks by name."""


def nothing_more(_: HopParts) -> dict[str, Awaitable[None]]:
    """For a service that is no more than the shared part."""
    return {}


@dataclass(frozen=True, slots=True)
class HopDefinition:
    """What makes a service the filter or the scorer; `volumes` is None where single volumes mean nothing."""

    method: HopMethod
    render: Render
    extras: Extras = nothing_more
    volumes: RenderVolumes | None = None


async def serve_hop(shutdown: Shutdown, definition: HopDefinition, settings: HopSettings) -> None:
    """Run the whole service until shutdown; every open request is answered before it returns.

    Raises:
        ListenError: an address is taken.
        ExceptionGroup: a task of the service failed.
    """
    tune_process()
    method = definition.method
    registry = service_registry(method.component)
    bus = Bus(settings.bus, registry)
    cache = HealthCache(
        bus, settings.policy, clock=bus.clock, registry=registry, stream_settle_s=settings.stream_settle_s
    )
    parts = HopParts(cache, bus, f"{method.component}-{secrets.token_hex(6)}", asyncio.Event(), registry)
    service = HopService(
        method,
        AnswerCache(cache.index, definition.render, cache.index.generation),
        volumes=_volume_answers(cache.index, definition.volumes),
        opened=parts.opened,
        instance=parts.instance,
        frozen=lambda: cache.frozen,
        registry=registry,
    )
    server = GrpcServer(settings.listen, method.service, service.handler())
    admin = _admin(settings, parts, server, method.component)
    await _listen(settings, server, admin, parts.instance)
    try:
        await run_until_shutdown(
            shutdown,
            {
                "bus": bus.run(),
                "cache": cache.keep_in_step(),
                "ageing": cache.keep_ageing(),
                "admin": admin.run_forever(),
                "opening": _open_when_synced(parts, server),
                **definition.extras(parts),
            },
        )
    finally:
        await server.set_serving(serving=False)
        await service.drain(DRAIN_S)
        await server.stop()
        await bus.close()


def _volume_answers(index: HealthIndex, render: RenderVolumes | None) -> AnswerCache[Volumes] | None:
    if render is None:
        return None
    return AnswerCache(index, render, index.generation_of_volumes, max_bytes=MAX_VOLUME_BYTES)


def _admin(settings: HopSettings, parts: HopParts, server: GrpcServer, component: str) -> HttpServer:
    checks = [*parts.cache.checks(), Check("grpc", lambda: (server.listening, str(server.address)))]
    routes = AdminRoutes(component, parts.registry, checks)
    return HttpServer(routes, settings.admin_listen.host, settings.admin_listen.port)


async def _listen(settings: HopSettings, server: GrpcServer, admin: HttpServer, instance: str) -> None:
    await admin.listen()
    await server.listen()
    admin_address = Address(settings.admin_listen.host, admin.port)
    if settings.port_file:
        write_ports(settings.port_file, {"grpc": server.address.port, "admin": admin.port})
    log.info("listening", grpc=str(server.address), admin=str(admin_address), instance=instance)


async def _open_when_synced(parts: HopParts, server: GrpcServer) -> None:
    while not parts.cache.synced:  # noqa: ASYNC110 - the replica has a flag, no event; over in a moment
        await asyncio.sleep(SYNC_POLL_S)
    parts.cache.tick()
    freeze_heap()
    parts.opened.set()
    await server.set_serving(serving=True)
    log.info("ready", nodes=parts.cache.index.nodes)
    await asyncio.Event().wait()
