"""Wait for what only a look can tell (a file, a socket, a state), and say what was seen when it does not come."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import TypeVar

from leadsman.domain.durations import format_duration
from leadsman.domain.errors import LeadsmanError

T = TypeVar("T")

_SHOWN_CHARACTERS = 2000


class NotInTimeError(LeadsmanError):
    """A condition did not hold by its deadline; the message shows the last state seen."""


def wait_for(
    what: str,
    observe: Callable[[], T],
    accept: Callable[[T], bool] = bool,
    *,
    within_s: float = 30.0,
    every_s: float = 0.03,
) -> T:
    """Call `observe` until `accept` likes its result (by default: until it is true), and return that result.

    Raises:
        NotInTimeError: it did not within `within_s` seconds. What `observe` raises is passed on.
    """
    deadline = time.monotonic() + within_s
    while not accept(state := observe()):
        if time.monotonic() >= deadline:
            raise _not_in_time(what, state, within_s)
        time.sleep(every_s)
    return state


async def eventually(
    what: str,
    observe: Callable[[], T],
    accept: Callable[[T], bool] = bool,
    *,
    within_s: float = 30.0,
    every_s: float = 0.03,
) -> T:
    """`wait_for` in an event loop, which goes on meanwhile."""
    deadline = time.monotonic() + within_s
    while not accept(state := observe()):
        if time.monotonic() >= deadline:
            raise _not_in_time(what, state, within_s)
        await asyncio.sleep(every_s)
    return state


def _not_in_time(what: str, state: object, within_s: float) -> NotInTimeError:
    words = f"not within {format_duration(within_s)}: {what}"
    return NotInTimeError(f"{words}; last seen: {_shown(state)}" if state else words)


def _shown(state: object) -> str:
    try:
        text = json.dumps(state)
    except TypeError:
        text = repr(state)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]} …"
