"""What the commands ask the process that owns a pipeline, and what it answers: one JSON line each way."""

from typing import Literal, get_args

import msgspec

How = Literal["freeze", "kill", "refuse", "hang-mount"]
"""Ways to break a node: stop or kill its CSI driver, close its TCP backend, hang its mount."""

HOWS: tuple[How, ...] = get_args(How)


class Request(msgspec.Struct, frozen=True):
    """One question or order. `node` and `how` matter for break and heal only."""

    action: Literal["break", "heal", "status"]
    node: str = ""
    how: How = "freeze"


class StorageView(msgspec.Struct, frozen=True):
    """State of one (driver, backend) on a node; `for_s` is how long it has been so, in seconds."""

    driver: str
    backend: str
    state: str
    reason: str
    message: str
    for_s: float


class VolumeView(msgspec.Struct, frozen=True):
    """A PersistentVolume that is not well on a node although its backend may be; `for_s` is in seconds."""

    driver: str
    volume: str
    state: str
    reason: str
    message: str
    for_s: float


class NodeView(msgspec.Struct, frozen=True):
    """A node as the bus shows it.

    `report_age_s` is None as long as it has never reported; on a node with sidecars it is the age of the report that is
    overdue the longest. `storages` and `bad_volumes` are what all its reporters say together.
    """

    name: str
    report_age_s: float | None
    storages: list[StorageView]
    broken_by: list[str]
    bad_volumes: list[VolumeView] = []


class DecisionView(msgspec.Struct, frozen=True):
    """One extender call; `rejected` maps node to reason code (at most 100 nodes), `at` is seconds since 1970.

    `shadow` is the same for what is not enforced.
    """

    at: float
    verb: str
    pod: str
    outcome: str
    candidates: int
    rejected_total: int
    rejected: dict[str, str]
    scores: dict[str, int]
    shadow: dict[str, str] = {}


class Status(msgspec.Struct, frozen=True):
    """The whole picture at one moment."""

    gateway: str
    nats: str
    ready: bool
    nodes: list[NodeView]
    decisions: list[DecisionView]


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """Either `error`, or what was done and what to expect, or a status."""

    error: str = ""
    did: list[str] = []
    expect: str = ""
    status: Status | None = None
