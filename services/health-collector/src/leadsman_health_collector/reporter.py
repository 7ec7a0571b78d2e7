"""Turns statuses into the node's report, hands it to the publisher, and keeps it for the next run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from leadsman.domain.report import (
    NodeReport,
    ProbeContext,
    Sequence,
    StorageKey,
    StorageStatus,
    VolumeStatus,
)
from leadsman.domain.states import severity
from leadsman.telemetry.logs import get_logger
from leadsman.wire.errors import WireError
from leadsman.wire.report import MAX_STORAGES, encode_report
from leadsman_health_collector.book import HealthBook
from leadsman_health_collector.cluster_view import AttachSlots
from leadsman_health_collector.metrics import CollectorMetrics

log = get_logger("collector.reporter")

MAX_MESSAGE = 200
MAX_BAD_VOLUMES = 64
"""Single volumes that a report lists; a node with more has bigger troubles, which its storages tell."""


class Publisher(Protocol):
    """What `leadsman.bus.publish.ReportPublisher` offers: it stamps the report and decides when it goes out."""

    def update(self, report: NodeReport, *, urgent: bool) -> None:
        """Take `report` as the node's present state."""
        ...


@dataclass(frozen=True, slots=True)
class Transition:
    """What has changed between two evaluations: storages and volumes, each as it was and as it is."""

    storages: tuple[tuple[StorageStatus | None, StorageStatus], ...] = ()
    volumes: tuple[tuple[VolumeStatus | None, VolumeStatus | None], ...] = ()


@dataclass(frozen=True, slots=True)
class NodeDetails:
    """What a report tells of the node beside the states of its storage.

    `used` are the shares (0-1) of space and inodes in use, by storage; `attach_slots` are by driver.
    """

    uid: str = ""
    labels: Mapping[str, str] | None = None
    facts: Mapping[str, float | str] | None = None
    used: Mapping[StorageKey, tuple[float | None, float | None]] | None = None
    attach_slots: Mapping[str, AttachSlots] | None = None


class Reporter:
    """Says nothing until `ready` is true: a report from a node that has not looked yet would turn good into unknown.

    `blank` is a report of the node with nothing in it. `details` is asked at every refresh; `on_transition` is told
    what has changed, `keep` is given what is published.
    """

    def __init__(
        self,
        blank: NodeReport,
        book: HealthBook,
        publisher: Publisher,
        *,
        ready: Callable[[], bool],
        keep: Callable[[NodeReport], None],
        metrics: CollectorMetrics,
        details: Callable[[], NodeDetails] = NodeDetails,
        on_transition: Callable[[Transition], None] = lambda _: None,
    ) -> None:
        self._blank = blank
        self._book = book
        self._publisher = publisher
        self._ready = ready
        self._keep = keep
        self._metrics = metrics
        self._details = details
        self._on_transition = on_transition
        self._labels: Mapping[str, str] | None = None
        self.probe: ProbeContext | None = None
        """The span of the probe run that last changed something; it travels in the report."""
        self.started = False
        """Whether anything has been handed to the publisher yet."""
        self._left_out = 0

    def refresh(self) -> None:
        """Work out the statuses; publish at once if they or the labels changed, else leave them to the heartbeat."""
        before, volumes_before = self._book.statuses, self._book.bad_volumes
        changed = self._book.evaluate()
        if changed:
            transition = _differences(before, self._book.statuses, volumes_before, self._book.bad_volumes)
            _log(transition)
            self._on_transition(transition)
        if not self._ready():
            return
        details = self._details()
        changed = changed or details.labels != self._labels
        self._labels = details.labels
        report = self._fit(self._report(details))
        self._publisher.update(report, urgent=changed or not self.started)
        self._keep(report)
        self._metrics.show(report.storages)
        self.started = True

    def _report(self, details: NodeDetails) -> NodeReport:
        return replace(
            self._blank,
            storages=tuple(_with_details(status, details) for status in self._book.statuses),
            bad_volumes=self._book.bad_volumes,
            node_uid=details.uid,
            labels=details.labels or {},
            facts=details.facts or {},
            probe=self.probe,
        )

    def _fit(self, report: NodeReport) -> NodeReport:
        """`report` within the limits of the bus.

        Texts are cut first, then dropped, then volumes, then the best storages; the worst storages always stay.
        """
        volumes = report.bad_volumes[:MAX_BAD_VOLUMES]
        shown = _cut(replace(report, bad_volumes=volumes), MAX_MESSAGE)
        if _fits(shown):
            self._note_left_out(0, len(report.bad_volumes) - len(volumes))
            return shown
        silent = _cut(shown, 0)
        while silent.bad_volumes and not _fits(silent):
            silent = replace(silent, bad_volumes=silent.bad_volumes[: len(silent.bad_volumes) // 2])
        worst_first = sorted(silent.storages, key=lambda each: -severity(each.state))[:MAX_STORAGES]
        while not _fits(silent := replace(silent, storages=tuple(worst_first))):
            worst_first = worst_first[: len(worst_first) * 9 // 10]
        storages_out = len(report.storages) - len(worst_first)
        self._note_left_out(storages_out, len(report.bad_volumes) - len(silent.bad_volumes))
        return silent

    def _note_left_out(self, storages: int, volumes: int) -> None:
        number = storages + volumes
        self._metrics.truncated.inc(1 if number else 0)
        if number and not self._left_out:
            log.warning("the report is too large, leaving some out", storages=storages, volumes=volumes)
        self._left_out = number


def _with_details(status: StorageStatus, details: NodeDetails) -> StorageStatus:
    shares = (details.used or {}).get(status.key)
    if shares is not None:
        status = status._replace(used=_rounded(shares[0]), inodes_used=_rounded(shares[1]))
    slots = None if status.key.backend else (details.attach_slots or {}).get(status.key.driver)
    return status if slots is None else status._replace(attach_limit=slots.limit, attached=slots.attached)


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 3)


def _cut(report: NodeReport, length: int) -> NodeReport:
    return replace(
        report,
        storages=tuple(each._replace(message=each.message[:length]) for each in report.storages),
        bad_volumes=tuple(each._replace(message=each.message[:length]) for each in report.bad_volumes),
    )


def _fits(report: NodeReport) -> bool:
    if len(report.storages) > MAX_STORAGES:
        return False
    try:
        encode_report(_as_stamped(report))
    except WireError:
        return False
    return True


def _as_stamped(report: NodeReport) -> NodeReport:
    """`report` at the length it will have once the publisher has put its numbers in."""
    return replace(report, sequence=Sequence(10**13, 10**9), interval_s=59.9, sent_epoch_s=1e9 / 3)


def _differences(
    before: tuple[StorageStatus, ...],
    after: tuple[StorageStatus, ...],
    volumes_before: tuple[VolumeStatus, ...],
    volumes_after: tuple[VolumeStatus, ...],
) -> Transition:
    known = {one.key: one for one in before}
    bad = {(one.driver, one.volume): one for one in volumes_before}
    still_bad = {(one.driver, one.volume): one for one in volumes_after}
    return Transition(
        storages=tuple(
            (known.get(one.key), one)
            for one in after
            if one.key not in known or known[one.key][1:3] != one[1:3]  # state and reason
        ),
        volumes=tuple(
            (bad.get(volume), still_bad.get(volume))
            for volume in sorted(bad.keys() | still_bad.keys())
            if (bad[volume][2:4] if volume in bad else None)
            != (still_bad[volume][2:4] if volume in still_bad else None)
        ),
    )


def _log(transition: Transition) -> None:
    for old, new in transition.storages:
        log.info(
            "storage state changed",
            driver=new.key.driver,
            backend=new.key.backend,
            state=new.state.value,
            reason=new.reason.value if new.reason else "",
            was=old.state.value if old else "",
            why=new.message,
        )
    for was, now in transition.volumes:
        one = now or was
        if one is not None:
            log.info(
                "volume is bad" if now else "volume is well again",
                driver=one.driver,
                volume=one.volume,
                reason=one.reason.value,
                why=one.message if now else "",
            )
