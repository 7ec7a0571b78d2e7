"""The nodes of a SchedulingPolicyTest document, turned into the reports that collectors would send about them."""

import difflib
from collections.abc import Iterable, Mapping

import msgspec

from leadsman.config.check import Checker
from leadsman.domain.durations import parse_duration
from leadsman.domain.errors import ConfigError
from leadsman.domain.fact_table import FACTS, FactType
from leadsman.domain.reasons import Reason, evidence_of
from leadsman.domain.report import NodeReport, Sequence, StorageKey, StorageStatus, VolumeStatus
from leadsman.domain.states import Evidence, State
from leadsman.domain.what_if import Heard

KeyPath = tuple[str | int, ...]

_HEARTBEAT_S = 10.0
_OWN_REASON = {State.NOT_APPLICABLE: Reason.DRIVER_NOT_REGISTERED}
"""Of states that mean one thing only."""


class StorageEntry(msgspec.Struct, frozen=True, rename="camel"):
    """One storage of a node: its state with the reason, and its numbers as in `docs/facts.md`."""

    state: State = State.HEALTHY
    reason: Reason | None = None
    latency_seconds: float | None = None
    used: float | None = None
    inodes_used: float | None = None
    attach_limit: int | None = None
    attached: int | None = None


class VolumeEntry(msgspec.Struct, frozen=True):
    """A volume that is bad on a node although its storage may be well."""

    reason: Reason
    state: State = State.UNHEALTHY


class NodeEntry(msgspec.Struct, frozen=True, rename="camel"):
    """One node. `storage` goes by `driver` or `driver/backend`, `bad_volumes` by `driver/volume`.

    With `reported` false no collector has ever spoken for it, so nothing else may stand there.
    """

    labels: dict[str, str] = {}
    facts: dict[str, float | str] = {}
    storage: dict[str, StorageEntry] = {}
    bad_volumes: dict[str, VolumeEntry] = {}
    silent_for: str = "0s"
    reported: bool = True


def split_storage(text: str) -> StorageKey:
    """`driver` or `driver/backend` as a key; the backend may hold slashes."""
    driver, _, backend = text.partition("/")
    return StorageKey(driver, backend)


def check_nodes(nodes: Mapping[str, NodeEntry], checker: Checker) -> None:
    """Add everything to `checker` that types alone cannot tell."""
    for name, node in nodes.items():
        at: KeyPath = ("nodes", name)
        _check_facts(node, checker, (*at, "facts"))
        _check_storages(node, checker, (*at, "storage"))
        _check_volumes(node, checker, (*at, "badVolumes"))
        try:
            parse_duration(node.silent_for)
        except ConfigError as error:
            checker.add((*at, "silentFor"), str(error))
        if not node.reported and node != NodeEntry(reported=False):
            checker.add((*at, "reported"), "a node that has never reported can have nothing else; remove one of both")


def _check_facts(node: NodeEntry, checker: Checker, at: KeyPath) -> None:
    for name, value in node.facts.items():
        fact = FACTS.get(name)
        if fact is None:
            checker.add((*at, name), f"there is no such fact; {nearest(name, FACTS)}")
        elif isinstance(value, str) != (fact.type is FactType.TEXT):
            checker.add((*at, name), f"this fact is a {fact.type.value}" if fact.type is not FactType.TEXT else _QUOTE)
        elif fact.type is FactType.COUNT and value != int(value):
            checker.add((*at, name), "this fact is a whole number")


_QUOTE = "this fact is text; put it in quotes"


def _check_storages(node: NodeEntry, checker: Checker, at: KeyPath) -> None:
    for name, storage in node.storage.items():
        if not split_storage(name).driver:
            checker.add((*at, name), "not `driver` or `driver/backend`")
        if storage.state is State.HEALTHY and storage.reason is not None:
            checker.add((*at, name, "reason"), "a HEALTHY storage has no reason; set the state as well")
        elif storage.state is not State.HEALTHY and storage.reason is None and storage.state not in _OWN_REASON:
            checker.add((*at, name), f"say why it is {storage.state.value}: reason (docs/reasons.md lists them)")
        for key, share in (("used", storage.used), ("inodesUsed", storage.inodes_used)):
            if share is not None and not 0 <= share <= 1:
                checker.add((*at, name, key), f"a share is from 0 to 1, not {share:g}")


def _check_volumes(node: NodeEntry, checker: Checker, at: KeyPath) -> None:
    for name in node.bad_volumes:
        driver, _, volume = name.partition("/")
        if not driver or not volume:
            checker.add((*at, name), "not `driver/volume`, where volume is the PersistentVolume's name")


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint at the name that was probably meant."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(known))}"


def reports_of(nodes: Mapping[str, NodeEntry]) -> tuple[Heard, ...]:
    """What the agents of `nodes` last said, and how long ago."""
    return tuple(
        (_report(name, node), parse_duration(node.silent_for)) for name, node in nodes.items() if node.reported
    )


def _report(name: str, node: NodeEntry) -> NodeReport:
    return NodeReport(
        name,
        Sequence(1, 1),
        _HEARTBEAT_S,
        tuple(_status(split_storage(key), one) for key, one in node.storage.items()),
        labels=node.labels,
        facts=node.facts,
        bad_volumes=tuple(_volume(key, one) for key, one in node.bad_volumes.items()),
    )


def _volume(key: str, one: VolumeEntry) -> VolumeStatus:
    driver, _, volume = key.partition("/")
    return VolumeStatus(driver, volume, one.state, one.reason)


def _status(key: StorageKey, one: StorageEntry) -> StorageStatus:
    reason = one.reason or _OWN_REASON.get(one.state)
    return StorageStatus(
        key,
        one.state,
        reason,
        evidence_of(reason) if reason else Evidence.DATA_PATH,
        latency_s=one.latency_seconds,
        used=one.used,
        inodes_used=one.inodes_used,
        attach_limit=one.attach_limit,
        attached=one.attached,
    )
