"""Names of storage servers to addresses, looked up in a few threads that nobody ever waits for.

The system's own resolver is asked, because mounts ask it too (hosts file, search domains, cluster DNS). It cannot be
interrupted: where DNS queries are dropped it blocks 10 s and more (facts: storage-health 3.3). In the event loop's
default executor such calls would fill all threads and hold up the end of the process.
"""

import asyncio
import contextlib
import socket
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from leadsman.domain.clock import Clock
from leadsman.domain.errors import LeadsmanError
from leadsman_health_collector.endpoints import MAX_ENDPOINTS, is_ip

MAX_THREADS = 4
"""Lookups at work at once; further ones wait for their turn."""

MAX_NAMES = 2 * MAX_ENDPOINTS
"""Names that are remembered or waited for; more than there can be endpoints of two lists in succession."""

REFRESH_S = 60.0
"""An address older than this is looked up again behind the scenes when somebody asks for it."""

LookUp = Callable[[str], str]
"""From a name to its first address; may block; raises OSError or ValueError."""


class NameLookupError(LeadsmanError):
    """A name has no address, or the resolver failed; the message says which."""


class LookupsBusyError(LeadsmanError):
    """A name could not be looked up, because lookups of other names do not come back. It says nothing about it."""


@dataclass(slots=True)
class _Pending:
    """A lookup that is at work or waits for its turn; its answer is an address or what went wrong."""

    answer: asyncio.Future[str | LeadsmanError]
    at_work: bool = False


def first_address(host: str) -> str:
    """The address that a mount of `host` would use: the first one of the system's resolver.

    Raises:
        OSError: there is none, or the resolver failed.
        ValueError: `host` is no possible name.
    """
    return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])


class Resolver:
    """Addresses of names, the last good one of each being kept for as long as the resolver fails.

    One lookup per name and MAX_THREADS in all are out at any time; everything else waits, however long they take.
    """

    def __init__(self, clock: Clock, look_up: LookUp = first_address) -> None:
        self._clock = clock
        self._look_up = look_up
        self._good: dict[str, tuple[str, float]] = {}
        self._pending: dict[str, _Pending] = {}
        self._queue: deque[str] = deque()
        self._at_work = 0

    @property
    def at_work(self) -> int:
        """Lookups, and so threads, that have not come back."""
        return self._at_work

    def known(self, host: str) -> str | None:
        """The address to use for `host` now: itself if it is one, else the last good one; None before that."""
        return host if is_ip(host) else self._good.get(host, (None, 0.0))[0]

    def waits_for_turn(self, host: str) -> bool:
        """Whether a lookup of `host` is wanted but not begun."""
        pending = self._pending.get(host)
        return pending is not None and not pending.at_work

    async def address(self, host: str) -> str:
        """What is `known`, else what a lookup finds.

        Raises:
            NameLookupError: it has never been resolved, and is not now.
            LookupsBusyError: it has never been resolved, and cannot be looked up now.
        """
        known = self.known(host)
        if known is None:
            return await self.resolve(host)
        if not is_ip(host) and self._clock.monotonic() - self._good[host][1] >= REFRESH_S:
            self.refresh(host)
        return known

    async def resolve(self, host: str) -> str:
        """What a lookup finds, begun now unless one is out.

        Raises:
            NameLookupError: it found nothing.
            LookupsBusyError: it cannot be had.
        """
        if is_ip(host):
            return host
        answer = await asyncio.shield(self._wanted(host).answer)
        if isinstance(answer, LeadsmanError):
            raise answer
        return answer

    def refresh(self, host: str) -> None:
        """Look `host` up without waiting: the address in use is old or does not answer."""
        if not is_ip(host):
            self._wanted(host)

    def _wanted(self, host: str) -> _Pending:
        pending = self._pending.get(host)
        if pending is None:
            pending = _Pending(asyncio.get_running_loop().create_future())
            if len(self._pending) >= MAX_NAMES:
                pending.answer.set_result(LookupsBusyError("too many names wait to be looked up"))
                return pending
            self._pending[host] = pending
            self._queue.append(host)
            self._start_next()
        return pending

    def _start_next(self) -> None:
        while self._queue and self._at_work < MAX_THREADS:
            host = self._queue.popleft()
            self._pending[host].at_work = True
            self._at_work += 1
            arguments = (host, asyncio.get_running_loop())
            try:
                # A daemon, because the end of the process must not wait for it.
                threading.Thread(target=self._work, args=arguments, name=f"resolve {host}", daemon=True).start()
            except RuntimeError:  # no more threads allowed
                self._finish(host, LookupsBusyError("no thread can be started to look names up"))

    def _work(self, host: str, loop: asyncio.AbstractEventLoop) -> None:
        """In a thread of its own: look up and tell the event loop, unless that has ended meanwhile."""
        answer: str | LeadsmanError
        try:
            answer = self._look_up(host)
        except OSError as error:
            answer = NameLookupError(f"{host} cannot be resolved: {error.strerror or error}")
        except ValueError:  # UnicodeError among others
            answer = NameLookupError(f"{host} is not a possible name")
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(self._come_back, host, answer)

    def _come_back(self, host: str, answer: str | LeadsmanError) -> None:
        self._finish(host, answer)
        self._start_next()

    def _finish(self, host: str, answer: str | LeadsmanError) -> None:
        self._at_work -= 1
        if isinstance(answer, str):
            self._good.pop(host, None)  # the newest comes last
            self._good[host] = (answer, self._clock.monotonic())
            if len(self._good) > MAX_NAMES:
                del self._good[next(iter(self._good))]
        self._pending.pop(host).answer.set_result(answer)
