"""Which change of a state is worth an Event, and what it says. Pure."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageStatus, VolumeStatus
from leadsman.domain.states import State

HEALTHY_REASON = "StorageHealthy"
"""Reason of the Event that tells of a recovery; the others have the reason of the state."""

MAX_MESSAGE_BYTES = 1024
"""What the newer Events API takes; the older one has no limit."""

_BAD = frozenset({State.UNHEALTHY, State.DEGRADED})


@dataclass(frozen=True, slots=True)
class Notice:
    """One Event to be: `series` tells which later ones are the same again; `single_volume` ones matter least."""

    series: Hashable
    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    single_volume: bool = False


def storage_notice(before: StorageStatus | None, after: StorageStatus, *, bad_was_told: bool) -> Notice | None:
    """The Event about a storage that was `before`, None for one that is new; None if there is nothing to tell.

    That a storage is found HEALTHY is news only if it was bad, or if the last Event said so (`bad_was_told`); that
    nothing is known is news only if something was known.
    """
    if before is not None and (before.state, before.reason) == (after.state, after.reason):
        return None
    known = before is not None and before.state is not State.UNKNOWN
    was_bad = bad_was_told or (before is not None and before.state in _BAD)
    if after.state not in _BAD and not (was_bad if after.state is State.HEALTHY else known):
        return None
    return Notice(
        ("storage", after.key, after.state, after.reason),
        "Warning" if after.state in _BAD else "Normal",
        HEALTHY_REASON if after.state is State.HEALTHY else _word(after.reason),
        printable(_storage_words(before, after)),
    )


def volume_notice(before: VolumeStatus | None, after: VolumeStatus | None) -> Notice | None:
    """The Event about a single volume; None as `before` or `after` stands for one that nothing is known against."""
    one = after or before
    if one is None or (before and after and (before.state, before.reason) == (after.state, after.reason)):
        return None
    volume = ("volume", one.driver, one.volume)
    if after is None:
        words = f"PersistentVolume {one.volume} of {one.driver} is no longer known to be bad; it was: {one.reason}"
        return Notice((*volume, None), "Normal", HEALTHY_REASON, printable(words), single_volume=True)
    words = f"PersistentVolume {one.volume} of {one.driver} is {one.state}: {one.message or one.reason}"
    return Notice((*volume, one.state, one.reason), "Warning", _word(one.reason), printable(words), single_volume=True)


def printable(text: str, limit: int = MAX_MESSAGE_BYTES) -> str:
    """`text` on one line, without what could steer a terminal (kubectl prints it as it is), within `limit` bytes."""
    words = " ".join(text.split())
    clean = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in words)
    data = clean.encode(errors="replace")
    return clean if len(data) <= limit else data[: limit - 3].decode(errors="ignore") + "…"


def _storage_words(before: StorageStatus | None, after: StorageStatus) -> str:
    was = f"; it was {before.state} ({_word(before.reason)})" if before is not None and before.state in _BAD else ""
    if after.state is State.HEALTHY:
        return f"{after.key} is HEALTHY again{was}"
    return f"{after.key} is {after.state}: {after.message or _word(after.reason)}"


def _word(reason: Reason | None) -> str:
    return (reason or Reason.UNRECOGNISED).value
