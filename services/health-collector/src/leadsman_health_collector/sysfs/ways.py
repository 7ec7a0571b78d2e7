"""A way that leads to a disk, and what the kernel's words about it mean."""

import errno
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from leadsman.domain.clock import Clock
from leadsman_health_collector.kernel_files import read_attribute

_MAX_WORD = 32
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO})

_MOMENT_S = 0.1
"""Long enough for all looks of a round, too short for a second look."""


class WayState(IntEnum):
    """Whether IO gets through on a way; the worst of its parts has the highest number.

    `MARGINAL` works, but its transport says that it should not be relied on. `UNREADABLE` says nothing: the kernel
    tells nothing, or a word that this version does not know.
    """

    UP = 0
    MARGINAL = 1
    UNREADABLE = 2
    DOWN = 3


@dataclass(frozen=True, slots=True)
class Words:
    """The kernel's words for the state of one kind of object, by what they mean for IO."""

    up: frozenset[str]
    down: frozenset[str]
    marginal: frozenset[str] = frozenset()

    def meaning(self, word: str) -> WayState:
        """What `word` means; UNREADABLE for one that is in no list."""
        if word in self.up:
            return WayState.UP
        if word in self.down:
            return WayState.DOWN
        return WayState.MARGINAL if word in self.marginal else WayState.UNREADABLE


@dataclass(frozen=True, slots=True)
class Part:
    """One object on a way (a SCSI device, a session, a port, a controller): its name, its state file, its words."""

    name: str
    file: str
    words: Words


@dataclass(frozen=True, slots=True)
class Way:
    """One way to a disk. One without parts is the way that a multipath map has lost: it is down."""

    name: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Sight:
    """What one reading of a way showed; `why` tells people what is wrong, `gone` that a state file has vanished."""

    state: WayState
    why: str = ""
    gone: bool = False


_LOST = Sight(WayState.DOWN, "no path left")


class StateFiles:
    """Sees ways by their state files; one that many ways share (a session, a port) is read once in a moment."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._read_at = float("-inf")
        self._read: dict[str, Sight] = {}

    def see(self, ways: Iterable[Way]) -> list[Sight]:
        """What each of `ways` shows now, in order; of each the worst part counts."""
        now = self._clock.monotonic()
        if now - self._read_at >= _MOMENT_S:
            self._read_at = now
            self._read = {}
        return [max(map(self._see, way.parts), key=_severity, default=_LOST) for way in ways]

    def _see(self, part: Part) -> Sight:
        sight = self._read.get(part.file)
        if sight is None:
            sight = self._read[part.file] = _see_part(part)
        return sight


def _see_part(part: Part) -> Sight:
    try:
        word = read_attribute(part.file)
    except OSError as error:
        return Sight(WayState.UNREADABLE, f"{part.name}: {error.strerror}", gone=error.errno in _GONE)
    state = part.words.meaning(word)
    return Sight(state, "" if state is WayState.UP else f"{part.name} {_printable(word)}")


def _severity(sight: Sight) -> int:
    return sight.state


def _printable(word: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in word[:_MAX_WORD]) or "tells no state"
