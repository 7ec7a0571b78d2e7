"""The two JetStream streams, and the provisioner that creates or updates them.

Plain streams, not KV buckets: roll-ups stay off (with them one collector can wipe every node), deletes and purges
are denied, and nothing is acknowledged (an acknowledgement can be aimed at another node's subject).
"""

import asyncio
from dataclasses import dataclass, replace
from typing import Any, Literal

import nats.errors
from nats.aio.client import Client
from nats.js.api import DiscardPolicy, RetentionPolicy, StorageType, StreamConfig
from nats.js.errors import APIError, NotFoundError

from leadsman.bus.client import ClientHooks, OneConnectionClient, close_client, open_client
from leadsman.bus.errors import StreamSetupError
from leadsman.bus.settings import BusSettings
from leadsman.bus.subjects import DECISION, EVERY_STATUS
from leadsman.wire import decision, report

Outcome = Literal["created", "updated", "unchanged"]

STATUS_STREAM = "LEADSMAN_STATUS"
DECISION_STREAM = "LEADSMAN_DECISIONS"

_MIB = 1024 * 1024


def provision_hint(urls: tuple[str, ...]) -> str:
    """What to type when a stream is missing; `urls` must not hold secrets."""
    return "run: leadsman provision " + " ".join(f"--nats-url {url}" for url in urls)


_SETUP_LIMIT_S = 20.0


@dataclass(frozen=True, slots=True)
class StreamApi:
    """Subjects on which a stream's facts and rows are asked for.

    A reader in a NATS account of its own reaches them under other names (`to:` of its imports).
    """

    info: str = f"$JS.API.STREAM.INFO.{STATUS_STREAM}"
    direct_get: str = f"$JS.API.DIRECT.GET.{STATUS_STREAM}"


_COMMON = StreamConfig(
    retention=RetentionPolicy.LIMITS,
    discard=DiscardPolicy.OLD,
    storage=StorageType.FILE,
    allow_direct=True,
    deny_delete=True,
    deny_purge=True,
    allow_rollup_hdrs=False,
    no_ack=True,
)

STREAMS = (
    replace(
        _COMMON,
        name=STATUS_STREAM,
        description="The latest report of every agent and sidecar; age is garbage collection, never a health signal.",
        subjects=[EVERY_STATUS],
        max_msgs_per_subject=1,
        max_age=900,
        max_msg_size=report.MAX_BODY_BYTES,
        max_bytes=256 * _MIB,
    ),
    replace(
        _COMMON,
        name=DECISION_STREAM,
        description="Decision records, for explanations.",
        subjects=[f"{DECISION}.>"],
        max_msgs=100_000,
        max_age=24 * 3600,
        max_msg_size=decision.MAX_BODY_BYTES,
        max_bytes=64 * _MIB,
    ),
)

_CHECKED = (
    "subjects",
    "max_msgs_per_subject",
    "max_age",
    "max_msg_size",
    "max_bytes",
    "max_msgs",
    "discard",
    "storage",
    "num_replicas",
    "allow_direct",
    "deny_delete",
    "deny_purge",
    "allow_rollup_hdrs",
    "no_ack",
)


async def ensure_streams(
    urls: tuple[str, ...], *, replicas: int = 1, creds_file: str | None = None
) -> dict[str, Outcome]:
    """Create both streams or bring them up to date, then check what the server made of it. Safe to repeat.

    Returns what was done to each stream by name.

    Raises:
        StreamSetupError: NATS is not reachable, has no JetStream, or will not have a stream as we need it.
    """
    settings = BusSettings(urls, "provisioner", creds_file)
    client = OneConnectionClient()
    try:
        await _connect(client, settings)
        async with asyncio.timeout(_SETUP_LIMIT_S):
            return {
                str(wanted.name): await _ensure(client, replace(wanted, num_replicas=replicas)) for wanted in STREAMS
            }
    except (nats.errors.Error, TimeoutError) as error:
        raise StreamSetupError(
            f"NATS at {settings.shown_urls} did not set up the streams: {error}; is JetStream on?"
        ) from error
    finally:
        await close_client(client, drain_s=1.0)


async def _connect(client: Client, settings: BusSettings) -> None:
    async def ignore(_: Exception) -> None:
        """What goes wrong is raised as well."""

    try:
        await open_client(client, settings, ClientHooks(ignore, lambda: None))
    except (nats.errors.Error, OSError, TimeoutError, ValueError, TypeError) as error:  # the last two: bad credentials
        raise StreamSetupError(
            f"cannot reach NATS at {settings.shown_urls}: {client.last_error or error}; is it running, and may we in?"
        ) from error


async def _ensure(client: Client, wanted: StreamConfig) -> Outcome:
    manager = client.jsm(timeout=5)
    name = str(wanted.name)
    outcome: Outcome = "unchanged"
    try:
        try:
            before = await manager.stream_info(name)
        except NotFoundError:
            outcome, found = "created", await manager.add_stream(wanted)
        else:
            outcome = "updated" if _differences(wanted, before.config) else "unchanged"
            found = await manager.update_stream(wanted)
    except APIError as error:
        raise StreamSetupError(
            f"NATS refuses stream {name}: {error.description or error} (code {error.err_code}); "
            "if its present settings cannot be changed, delete the stream and run this again: it is refilled by itself"
        ) from error
    wrong = _differences(wanted, found.config)
    if wrong:
        raise StreamSetupError(f"stream {name} has other settings than asked for: {wrong}; is the server too old?")
    return outcome


def _differences(wanted: StreamConfig, found: StreamConfig) -> str:
    def plain(value: Any) -> Any:  # noqa: ANN401 - settings are of many types
        return getattr(value, "value", value)

    pairs = [(name, plain(getattr(found, name)), plain(getattr(wanted, name))) for name in _CHECKED]
    return ", ".join(
        f"{name} is {has!r}, not {want!r}" for name, has, want in pairs if want is not None and has != want
    )
