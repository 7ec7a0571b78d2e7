"""One pass over a machine as a table for people or as JSON for programs. Pure; `check` fills a `CheckReport` in.

The exit code is that of the worst state (`ExitCode`), so that scripts need not read anything.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import IntEnum

import msgspec

from leadsman.domain.reasons import Reason, scope_of
from leadsman.domain.report import StorageKey, StorageStatus, VolumeStatus
from leadsman.domain.states import State, severity
from leadsman_health_collector.mountinfo import printable
from leadsman_health_collector.observation import Kind, Observation, Outcome
from leadsman_health_collector.probes.probe import FactValue, Source
from leadsman_health_collector.strikes import Level


class ExitCode(IntEnum):
    """What `check` exits with; 2 is a wrong command line, as everywhere."""

    HEALTHY = 0
    UNHEALTHY = 1
    USAGE = 2
    DEGRADED = 3
    UNKNOWN = 4
    FAILED = 5


EXIT_CODES = (
    "Exit code, by the worst state: 0 all is healthy, or there is nothing to judge; 1 something is UNHEALTHY; "
    "3 something is DEGRADED; 4 something is UNKNOWN; 2 wrong usage; 5 the check itself failed."
)
"""For `check --help`."""

_CODES = {
    State.UNHEALTHY: ExitCode.UNHEALTHY,
    State.DEGRADED: ExitCode.DEGRADED,
    State.UNKNOWN: ExitCode.UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class Looked:
    """One source: the last look at it, and its level after all looks of the pass (None: undecided)."""

    kind: Kind
    name: str
    source: Source
    seen: Observation
    level: Level | None

    @property
    def state(self) -> State:
        """Of this source alone."""
        return self.level.state if self.level else State.UNKNOWN

    @property
    def reason(self) -> Reason | None:
        """Why it is not healthy; while undecided, what the last look suspects."""
        if self.level:
            return self.level.reason
        return self.seen.reason or Reason.NOT_OBSERVED

    @property
    def words(self) -> str:
        """What was found, or why nothing was."""
        if self.seen.outcome is Outcome.NOT_RUN:
            return f"not looked at: {self.seen.message}"
        return (self.level.message if self.level else "") or self.seen.message

    @property
    def latency_s(self) -> float | None:
        """How long the last answer took."""
        return self.level.latency_s if self.level and self.level.latency_s is not None else self.seen.latency_s


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that was not looked at, and why: a probe by its name, or a place."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class CheckReport:
    """One pass. `storages` and `bad_volumes` are as a collector would report them, `looked` is what they rest on."""

    node: str
    taken_epoch_s: float
    took_s: float
    storages: tuple[StorageStatus, ...]
    looked: tuple[Looked, ...]
    bad_volumes: tuple[VolumeStatus, ...] = ()
    facts: Mapping[str, FactValue] = field(default_factory=dict)
    skipped: tuple[Skipped, ...] = ()

    @property
    def keys(self) -> list[StorageKey]:
        """Everything that storages or looks are about, in order."""
        return sorted({*(one.key for one in self.storages), *(one.source.key for one in self.looked)})

    def states(self) -> Iterable[State]:
        """The states that count: those of the storages, and of looks whose storage is not listed."""
        listed = {one.key for one in self.storages}
        return [
            *(one.state for one in self.storages),
            *(one.state for one in self.looked if one.source.key not in listed),
        ]

    @property
    def worst(self) -> State | None:
        """The worst state that counts; None if there is nothing to judge."""
        return max(self.states(), key=severity, default=None)

    @property
    def exit_code(self) -> ExitCode:
        """By the worst state."""
        return _CODES.get(self.worst, ExitCode.HEALTHY) if self.worst else ExitCode.HEALTHY

    def looks_at(self, key: StorageKey) -> list[Looked]:
        """The looks behind one storage, in the order of the probes."""
        kinds = list(Kind)
        own = [one for one in self.looked if one.source.key == key]
        return sorted(own, key=lambda one: (kinds.index(one.kind), one.source.place, one.name))

    def summary(self) -> str:
        """One line: the worst state, how many of each, and how much was looked at."""
        if self.worst is None:
            return f"{self.node}: nothing to judge: no CSI driver, volume or endpoint was found"
        counts = Counter(self.states())
        words = ", ".join(f"{counts[state]} {state.value}" for state in sorted(counts, key=severity, reverse=True))
        skipped = f"; {len(self.skipped)} skipped" if self.skipped else ""
        looks = f"{len(self.looked)} looked at in {self.took_s:.1f}s"
        return f"{self.node}: {self.worst.value} ({words}), {looks}{skipped}"

    @property
    def has_reasons(self) -> bool:
        """Whether any reason is told."""
        reasons = {*(one.reason for one in self.storages), *(one.reason for one in self.looked)}
        return bool(self.bad_volumes) or bool(reasons - {None})


def render_json(report: CheckReport) -> str:
    """`report` as JSON; keys are only ever added within version 1.

    ```
    {"v": 1, "node": "…", "taken": "2026-01-31T12:00:00Z", "took_s": 3.2, "state": "UNHEALTHY" | … | null,
     "exit_code": 1,
     "storages": [{"driver", "backend", "state", "reason", "affects", "message", "latency_s", "used", "inodes_used"}],
     "bad_volumes": [{"driver", "volume", "state", "reason", "affects", "message"}],
     "looks": [{"probe", "driver", "backend", "source", "place", "volumes", "outcome", "state", "reason", "message",
                "latency_s"}],
     "facts": {"…": number or text}, "skipped": [{"what", "why"}]}
    ```

    `reason` and `affects` (NEW_MOUNTS, EXISTING_MOUNTS, BOTH, NONE) are null for HEALTHY; `used` and `inodes_used` are
    shares from 0 to 1; what is not known is null.
    """
    body = {
        "v": 1,
        "node": report.node,
        "taken": datetime.fromtimestamp(report.taken_epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "took_s": round(report.took_s, 3),
        "state": report.worst.value if report.worst else None,
        "exit_code": int(report.exit_code),
        "storages": [_storage(one) for one in sorted(report.storages)],
        "bad_volumes": [_volume(one) for one in report.bad_volumes],
        "looks": [_look(one) for key in report.keys for one in report.looks_at(key)],
        "facts": {name: report.facts[name] for name in sorted(report.facts)},
        "skipped": [{"what": one.what, "why": one.why} for one in report.skipped],
    }
    return msgspec.json.format(msgspec.json.encode(_encodable(body))).decode()


def _storage(one: StorageStatus) -> dict[str, object]:
    return {
        "driver": one.key.driver,
        "backend": one.key.backend,
        **_verdict(one.state, one.reason, one.message),
        "latency_s": one.latency_s,
        "used": one.used,
        "inodes_used": one.inodes_used,
    }


def _volume(one: VolumeStatus) -> dict[str, object]:
    return {"driver": one.driver, "volume": one.volume, **_verdict(one.state, one.reason, one.message)}


def _verdict(state: State, reason: Reason | None, message: str) -> dict[str, object]:
    affects = scope_of(reason).value if reason else None
    return {"state": state.value, "reason": reason.value if reason else None, "affects": affects, "message": message}


def _look(one: Looked) -> dict[str, object]:
    return {
        "probe": one.kind.value,
        "driver": one.source.key.driver,
        "backend": one.source.key.backend,
        "source": one.name,
        "place": one.source.place,
        "volumes": list(one.source.volumes),
        "outcome": one.seen.outcome.value,
        "state": one.state.value,
        "reason": one.reason.value if one.reason else None,
        "message": one.words,
        "latency_s": one.latency_s,
    }


def _encodable(value: object) -> object:
    """`value` with texts that are valid Unicode; paths may hold any byte."""
    match value:
        case str():
            return printable(value)
        case dict():
            return {printable(name): _encodable(each) for name, each in value.items()}
        case list():
            return [_encodable(each) for each in value]
        case _:
            return value
