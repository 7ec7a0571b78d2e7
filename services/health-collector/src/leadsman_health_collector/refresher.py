"""Works out the report once for news that come together."""

import asyncio
from collections.abc import Callable

TOGETHER_S = 0.05
"""News within this time make one refresh: the rounds of all probes end at about the same moment."""


class Refresher:
    """Calls `refresh` soon after `ask`."""

    def __init__(self, refresh: Callable[[], None]) -> None:
        self._refresh = refresh
        self._asked = asyncio.Event()

    def ask(self) -> None:
        """There is news."""
        self._asked.set()

    async def run(self) -> None:
        """Refresh when asked, for ever."""
        while True:
            await self._asked.wait()
            await asyncio.sleep(TOGETHER_S)
            self._asked.clear()
            self._refresh()
