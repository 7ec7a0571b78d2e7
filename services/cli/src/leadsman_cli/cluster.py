"""What the bus tells now: the last report of every node, and the policy that filters and scorers work by."""

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import click
from nats.aio.msg import Msg
from prometheus_client import CollectorRegistry

from leadsman.bus.connect import Bus, BusSettings
from leadsman.bus.errors import BusError
from leadsman.bus.replica import Replica
from leadsman.bus.subjects import POLICY
from leadsman.domain.report import NodeReport
from leadsman.domain.what_if import Heard
from leadsman.wire.errors import WireError
from leadsman.wire.notices import PolicyInForce, decode_policy
from leadsman_cli.errors import CommandError
from leadsman_cli.runs import find_run

_CONNECT_S = 5.0
_SNAPSHOT_S = 10.0
_ANSWERS_S = 0.4
"""How long answers about the policy are gathered; replicas answer within milliseconds."""

_SAY_AFTER_S = 1.0
_LOOK_EVERY_S = 0.02


@dataclass(frozen=True, slots=True)
class Cluster:
    """Reports with their ages, and every replica's answer about the policy, sorted by instance."""

    nats: str
    reports: tuple[Heard, ...]
    policies: tuple[PolicyInForce, ...] = ()


class _Nobody:
    """Listens to no report: the replica keeps them."""

    def on_report(self, report: NodeReport, age_s: float) -> None:
        """See `ReplicaListener`."""


def bus_settings(urls: Sequence[str], creds: str | None, port: int | None) -> BusSettings:
    """How to reach the bus that is meant: `urls`, or without any that of the running `leadsman up` (on `port`).

    Raises:
        CommandError: none is named and none, or more than one, runs.
    """
    if urls:
        return BusSettings.for_service(tuple(urls), "leadsman-cli", creds)
    try:
        state = find_run(port)
    except CommandError as error:
        raise CommandError(f"{error}; or name the NATS of an installation with --nats-url") from error
    if not state.nats:
        raise CommandError(f"the pipeline on port {state.port} is still starting; try again in a few seconds")
    return BusSettings.for_service((state.nats,), "leadsman-cli")


def read_cluster(settings: BusSettings, *, policies: bool = False) -> Cluster:
    """Read all reports, and with `policies` ask for the policy in force.

    Raises:
        CommandError: NATS is out of reach, or holds no reports.
    """
    return asyncio.run(_read(settings, policies=policies))


async def _read(settings: BusSettings, *, policies: bool) -> Cluster:
    registry = CollectorRegistry()
    bus = Bus(settings, registry)
    replica = Replica(bus, registry=registry, listener=_Nobody())
    trouble, answers, reports = "", list[PolicyInForce](), list[Heard]()
    async with asyncio.TaskGroup() as group:
        following = [group.create_task(bus.run(), name="bus"), group.create_task(replica.run(), name="replica")]
        try:
            trouble = await _until_synced(bus, replica, settings.shown_urls)
            if not trouble:
                answers = await _ask_for_policies(bus) if policies else []
                reports = [(report, replica.age(reporter) or 0.0) for reporter, report in replica.reports.items()]
        finally:
            for task in following:
                task.cancel()
    if trouble:
        raise CommandError(trouble)
    return Cluster(settings.shown_urls, tuple(reports), tuple(answers))


async def _until_synced(bus: Bus, replica: Replica, nats: str) -> str:
    """Wait for the first whole snapshot; returns what is in the way of it, or nothing."""
    began, said = bus.clock.monotonic(), False
    while not replica.synced:
        waited = bus.clock.monotonic() - began
        if not bus.connected and waited > _CONNECT_S:
            return f"NATS at {nats} is out of reach; check the address, and the credentials if it wants some"
        if waited > _SNAPSHOT_S:
            return f"no node reports from NATS at {nats}: {replica.describe()[1]}"
        if waited > _SAY_AFTER_S and not said and sys.stderr.isatty():
            click.echo(f"reading node reports from {nats} ...", err=True)
            said = True
        await asyncio.sleep(_LOOK_EVERY_S)
    return ""


async def _ask_for_policies(bus: Bus) -> list[PolicyInForce]:
    found: dict[str, PolicyInForce] = {}

    def keep(message: Msg) -> bool:
        with contextlib.suppress(WireError):  # of another version; it counts as silent
            answer = decode_policy(message.data)
            found[answer.instance] = answer
        return False  # more may come until the time is over

    with contextlib.suppress(BusError):  # raised when the time is over, and when nobody listens at all
        await bus.collect(POLICY, b"", keep, timeout_s=_ANSWERS_S)
    return [found[instance] for instance in sorted(found)]


def choose_policy(policies: Sequence[PolicyInForce]) -> tuple[PolicyInForce | None, list[str]]:
    """The policy that most replicas work by (None: nobody answered), and warnings about what is odd."""
    if not policies:
        return None, ["no filter or scorer says which policy is in force; the built-in one is taken"]
    counts = Counter(one.fingerprint for one in policies)
    most = max(counts.values())
    chosen = next(one for one in policies if counts[one.fingerprint] == most)
    warnings = []
    if len(counts) > 1:
        said = ", ".join(f"{one.instance} {one.fingerprint}" for one in policies)
        warnings.append(f"replicas work by different policies ({said}); {chosen.fingerprint} is taken")
    refused = {one.refused: one.instance for one in policies if one.refused}
    warnings += [f"{who} refuses a newer policy: {'; '.join(why.splitlines())}" for why, who in refused.items()]
    return chosen, warnings
