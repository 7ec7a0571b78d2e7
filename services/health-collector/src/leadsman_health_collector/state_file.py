"""What one run of the collector leaves to the next: its last statuses, the drivers it knew, the endpoints it was told.

Valid for one boot of the node. What was seen is history after 5 minutes on the clock that no one can set; whose socket
is whose stays true.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from leadsman.domain.clock import Clock
from leadsman.domain.report import NodeReport, Sequence
from leadsman.telemetry.logs import get_logger
from leadsman.wire.errors import WireError
from leadsman.wire.report import decode_report, encode_report
from leadsman_health_collector.endpoints import Endpoint
from leadsman_health_collector.metrics import CollectorMetrics

log = get_logger("collector.state_file")

MAX_AGE_S = 300.0
MAX_BYTES = 1024 * 1024

REWRITE_S = 60.0
"""A file in which nothing has changed that a restart would need is written no more often."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """What is carried over; empty for a collector that starts afresh.

    `report` is the last one, whose numbers mean nothing here.
    """

    report: NodeReport | None = None
    drivers: Mapping[str, str] = field(default_factory=dict)
    endpoints: tuple[Endpoint, ...] = ()


class _File(msgspec.Struct):
    v: int
    node: str
    boot_id: str
    epoch: int
    monotonic_s: float
    report: msgspec.Raw
    drivers: dict[str, str] = {}
    endpoints: list[Endpoint] = []


_decoder = msgspec.json.Decoder(_File)
_encoder = msgspec.json.Encoder()


class StateFile:
    """The file at `path`, written whole or not at all; its directory is made if it is missing.

    It is not synced to disk: it must survive this process, not the machine, whose next boot makes it void.
    """

    def __init__(self, path: Path, node: str, boot_id: str, clock: Clock, metrics: CollectorMetrics) -> None:
        self._path = path
        self._node = node
        self._boot_id = boot_id
        self._clock = clock
        self._metrics = metrics
        self._failing = False
        self._kept: object = None
        self._written_at = float("-inf")
        self.trouble = ""
        """Why the file is of no use at present, in words for people; empty if it is."""
        self.epoch = int(clock.epoch() * 1000)
        """Number of this run, higher than that of any earlier run that left a file, also if the clock went back."""

    def load(self) -> Remembered:
        """What an earlier run left, if it can be believed; sets `epoch`."""
        try:
            file = self._read()
        except (OSError, ValueError, WireError) as error:
            self._metrics.state_file_errors.labels("read").inc()
            self.trouble = f"{self._path} cannot be used: {error}"
            log.warning("the state file cannot be used, starting afresh", path=str(self._path), error=str(error))
            return Remembered()
        if file is None:
            return Remembered()
        self.epoch = max(self.epoch, file.epoch + 1)
        age = self._clock.monotonic() - file.monotonic_s
        if (file.node, file.boot_id) != (self._node, self._boot_id) or age < 0:
            log.info("the state file is from another boot or node, starting afresh", path=str(self._path))
            return Remembered()
        if age >= MAX_AGE_S:
            log.info("the state file is old, keeping the drivers' names only", path=str(self._path), age_s=round(age))
            return Remembered(drivers=file.drivers)
        report = decode_report(bytes(file.report))
        log.info(
            "resuming from the state file", path=str(self._path), age_s=round(age, 1), storages=len(report.storages)
        )
        return Remembered(report, file.drivers, tuple(file.endpoints))

    def save(self, remembered: Remembered) -> None:
        """Replace the file if need be; a failure is logged once and counted, never raised."""
        kept, now = _essence(remembered), self._clock.monotonic()
        if kept == self._kept and not self._failing and now - self._written_at < REWRITE_S:
            return
        try:
            self._write(remembered)
        except (OSError, WireError) as error:
            self._metrics.state_file_errors.labels("write").inc()
            if not self._failing:
                log.warning("the state file cannot be written", path=str(self._path), error=str(error))
            self._failing = True
            self.trouble = f"{self._path} cannot be written, so a restart would forget what is bad: {error}"
        else:
            self._failing = False
            self._kept, self._written_at = kept, now
            self.trouble = ""

    def _read(self) -> _File | None:
        try:
            with self._path.open("rb") as opened:
                file = _decoder.decode(opened.read(MAX_BYTES))
        except FileNotFoundError:
            return None
        if file.v != 1:
            raise WireError(f"version {file.v}; this build reads version 1")
        decode_report(bytes(file.report))
        return file

    def _write(self, remembered: Remembered) -> None:
        report = remembered.report or NodeReport(self._node, Sequence(self.epoch, 0), 10.0, ())
        body = _encoder.encode(
            _File(
                v=1,
                node=self._node,
                boot_id=self._boot_id,
                epoch=self.epoch,
                monotonic_s=self._clock.monotonic(),
                report=msgspec.Raw(encode_report(report)),
                drivers=dict(remembered.drivers),
                endpoints=list(remembered.endpoints),
            )
        )
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self._path, body)


def _essence(remembered: Remembered) -> object:
    """What a restart would need; words, latencies and facts may be a minute old."""
    report = remembered.report
    states = report and (
        tuple((one.key, one.state, one.reason) for one in report.storages),
        tuple((one.driver, one.volume, one.state, one.reason) for one in report.bad_volumes),
        dict(report.labels),
    )
    return states, dict(remembered.drivers), remembered.endpoints


def write_whole(path: Path, body: bytes) -> None:
    """Write `body` to `path` such that a reader sees the old content or the new.

    Raises:
        OSError: it cannot be written.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(body)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
