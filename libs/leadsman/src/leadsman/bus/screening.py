"""Which messages may enter the cache. A compromised node must be able to lie only about itself.

The server's permissions let a node publish on its own subject only; these checks make sure that body, subject and
bounds agree, and that copies which someone made the server send do not pass as live reports. A sidecar, whose subject
names its driver too, can lie only about that driver on its node.
"""

from collections.abc import Mapping
from enum import StrEnum

from leadsman.bus.errors import SubjectError
from leadsman.bus.subjects import status_subject
from leadsman.domain.errors import LeadsmanError
from leadsman.domain.report import NodeReport
from leadsman.wire.errors import WireError
from leadsman.wire.report import MAX_BODY_BYTES, decode_report

MAX_EPOCH_LEAD_S = 300.0
"""A report whose epoch is further in the future would block its node until then, so it is refused."""

_SERVER_HEADERS = ("Nats-Stream", "Nats-Subject")


class Drop(StrEnum):
    """Why a message did not change the cache; the label of the drop counter."""

    REFLECTED = "reflected"
    OVERSIZED = "oversized"
    MALFORMED = "malformed"
    SUBJECT_MISMATCH = "subject_mismatch"
    FOREIGN_DRIVER = "foreign_driver"
    FUTURE_EPOCH = "future_epoch"
    OLD = "old"
    EXPIRED = "expired"
    TOO_MANY_NODES = "too_many_nodes"
    TOO_MANY_SIDECARS = "too_many_sidecars"
    UNFORESEEN = "unforeseen"


class ScreeningError(LeadsmanError):
    """A message that must not enter the cache."""

    def __init__(self, reason: Drop, words: str) -> None:
        super().__init__(words)
        self.reason = reason


def check_live(headers: Mapping[str, str] | None) -> None:
    """Refuse a live message that is really a copy of a stored one.

    Raises:
        ScreeningError: it carries headers that only the server adds to stored messages.
    """
    if headers and any(name in headers for name in _SERVER_HEADERS):
        raise ScreeningError(Drop.REFLECTED, "a live message carries the headers of a stored one")


def screen(subject: str, body: bytes, now_epoch_s: float) -> NodeReport:
    """The report in `body`, if it may be believed about the node (and the driver) that `subject` names.

    `now_epoch_s` is the receiver's time in seconds since 1970.

    Raises:
        ScreeningError: it may not; the error says why.
    """
    if len(body) > MAX_BODY_BYTES:
        raise ScreeningError(Drop.OVERSIZED, f"{len(body)} bytes, over the limit of {MAX_BODY_BYTES}")
    try:
        report = decode_report(body)
    except WireError as error:
        raise ScreeningError(Drop.MALFORMED, str(error)) from error
    try:
        expected = status_subject(report.node, report.scope)
    except SubjectError as error:
        raise ScreeningError(Drop.SUBJECT_MISMATCH, str(error)) from error
    if expected != subject:
        raise ScreeningError(Drop.SUBJECT_MISMATCH, f"the body speaks for {report.reporter}")
    if report.scope:
        _check_scope(report)
    lead = report.sequence.epoch / 1000 - now_epoch_s
    if lead > MAX_EPOCH_LEAD_S:
        raise ScreeningError(
            Drop.FUTURE_EPOCH, f"its epoch is {lead:.0f} s ahead of our clock; check the clocks of the node and of us"
        )
    return report


def _check_scope(report: NodeReport) -> None:
    drivers = {status.key.driver for status in report.storages} | {status.driver for status in report.bad_volumes}
    foreign = sorted(drivers - {report.scope})
    if foreign:
        raise ScreeningError(Drop.FOREIGN_DRIVER, f"the sidecar of {report.scope} speaks of {foreign[0]}")
