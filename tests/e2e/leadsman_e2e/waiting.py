"""Wait for a condition, and say what was seen instead when it does not come."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SHOWN_CHARACTERS = 2000


class NotInTimeError(AssertionError):
    """A condition did not hold by its deadline; the message shows the last state seen."""


def wait_for(
    description: str,
    observe: Callable[[], T],
    accept: Callable[[T], bool] = bool,
    *,
    timeout: float = 10.0,
    interval: float = 0.05,
) -> T:
    """Call `observe` until `accept` likes its result, and return that result.

    `timeout` and `interval` are seconds. Without `accept` any true value will do. Raises NotInTimeError
    with the last result; an exception of `observe` is not swallowed.
    """
    deadline = time.monotonic() + timeout
    while True:
        state = observe()
        if accept(state):
            return state
        if time.monotonic() >= deadline:
            raise NotInTimeError(f"not within {timeout:g} s: {description}; last seen: {_show(state)}")
        time.sleep(interval)


def _show(state: object) -> str:
    try:
        text = json.dumps(state, indent=1)
    except TypeError:
        text = repr(state)
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + " …"
