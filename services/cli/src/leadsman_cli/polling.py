"""Waiting for something that only a look can tell: a file, a socket, a mount."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from leadsman.domain.durations import format_duration
from leadsman_cli.errors import NotReadyError

T = TypeVar("T")

_POLL_S = 0.03


async def until(look: Callable[[], T | None], what: str, within_s: float) -> T:
    """The first value of `look` that is neither None nor False.

    Raises:
        NotReadyError: none came within `within_s` seconds; the message names `what`.
    """
    try:
        async with asyncio.timeout(within_s):
            while not (seen := look()):  # noqa: ASYNC110 - what others do to files and sockets sets no event
                await asyncio.sleep(_POLL_S)
            return seen
    except TimeoutError as error:
        raise NotReadyError(f"{what}: not within {format_duration(within_s)}") from error
