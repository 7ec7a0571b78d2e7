"""Reading the stored reports: facts about the stream, and its rows page by page with direct-get.

nats-py has no batch direct-get, so the request is written here (NATS ADR-31). Pages go by sequence, because the
form that asks for the last message of each subject refuses more than 1,024 subjects.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import msgspec
from nats.aio.msg import Msg

from leadsman.bus.connect import Bus
from leadsman.bus.errors import BusError, NoAnswerError, NoStreamError
from leadsman.bus.streams import StreamApi, provision_hint
from leadsman.bus.subjects import EVERY_STATUS

PAGE_ROWS = 5_000
PAGE_BYTES = 8 * 1024 * 1024
"""The server sends a page without flow control, so it must stay far below its 64 MiB limit of pending data."""

_END_OF_PAGE = "204"
_NOTHING_LEFT = "404"


class Row(NamedTuple):
    """One stored message; `stored_at` is the server's time of storing, in seconds since 1970."""

    subject: str
    body: bytes
    stored_at: float


OnRow = Callable[[Row], None]
OnUnreadable = Callable[[str, Exception], None]


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """What identifies a stream's life: when it was created and how far its numbering got.

    `server_time` is the server's clock at the answer, in seconds since 1970, and `age_s` how long ago by that clock the
    stream was created.
    """

    created: str
    last_seq: int
    server_time: float
    age_s: float = 0.0

    def reset_since(self, before: "StreamFacts | None") -> str | None:
        """How the stream differs from what it was: None, `recreated`, or `rolled_back` (writes were lost)."""
        if before is None:
            return None
        if before.created != self.created:
            return "recreated"
        return "rolled_back" if self.last_seq < before.last_seq else None


class _State(msgspec.Struct):
    last_seq: int


class _Error(msgspec.Struct):
    code: int
    description: str = ""


class _Info(msgspec.Struct):
    created: str = ""
    ts: str = ""
    state: _State | None = None
    error: _Error | None = None


_info_decoder = msgspec.json.Decoder(_Info)


class StatusStream:
    """The stored reports as a reader sees them, over the bus's own connection."""

    def __init__(self, bus: Bus, api: StreamApi) -> None:
        self._bus = bus
        self._api = api

    async def facts(self) -> StreamFacts:
        """Ask the server about the stream.

        Raises:
            NoStreamError: there is no such stream.
            BusError: no usable answer.
        """
        answer = await self._bus.request(self._api.info)
        try:
            info = _info_decoder.decode(answer.data)
            if info.error is None and info.state is not None:
                now = _seconds(info.ts)
                return StreamFacts(info.created, info.state.last_seq, now, now - _seconds(info.created))
        except ValueError as error:  # msgspec's errors are ValueErrors too
            raise BusError(f"the answer on {self._api.info} is no stream information: {error}") from error
        if info.error is not None and info.error.code == 404:
            raise NoStreamError(f"NATS has no stream behind {self._api.info}; {provision_hint(self._bus.urls)}")
        raise BusError(f"NATS refuses {self._api.info}: {info.error}")

    async def read(self, first_seq: int, until_seq: int, on_row: OnRow, on_unreadable: OnUnreadable) -> int:
        """Feed every row from `first_seq` on to `on_row`, at least up to `until_seq`; return the last sequence read.

        A row whose headers make no sense goes to `on_unreadable` with its subject and the error.

        Rows that are written meanwhile may or may not be among them; they also arrive live.

        Raises:
            BusError: interrupted; rows already fed stay valid.
        """
        last = first_seq - 1
        while last < until_seq:
            reached = await self._page(last + 1, on_row, on_unreadable)
            if reached <= last:
                break
            last = reached
        return last

    async def _page(self, first_seq: int, on_row: OnRow, on_unreadable: OnUnreadable) -> int:
        """One page; returns the sequence of its last row, or 0 when there is nothing from `first_seq` on."""
        reached = 0

        def on_answer(msg: Msg) -> bool:
            nonlocal reached
            headers = msg.headers or {}
            # The server appends this header to every row; a status header alone could be part of a forged message.
            if "Nats-Sequence" in headers:
                try:
                    row = Row(headers["Nats-Subject"], msg.data, _seconds(headers["Nats-Time-Stamp"]))
                    reached = int(headers["Nats-Sequence"])
                except (KeyError, ValueError) as error:
                    on_unreadable(headers.get("Nats-Subject", ""), error)
                else:
                    on_row(row)
                return False
            status = headers.get("Status")
            if status == _END_OF_PAGE:
                reached = max(reached, int(headers.get("Nats-Last-Sequence", "0")))
            elif status is not None and status != _NOTHING_LEFT:
                raise BusError(f"NATS refuses {self._api.direct_get}: status {status} {headers}")
            return status is not None

        body = msgspec.json.encode(
            {"seq": first_seq, "next_by_subj": EVERY_STATUS, "batch": PAGE_ROWS, "max_bytes": PAGE_BYTES}
        )
        try:
            await self._bus.collect(self._api.direct_get, body, on_answer)
        except NoAnswerError as error:
            raise BusError(f"the stored reports cannot be read: {error}") from error
        except ValueError as error:
            raise BusError(f"the end of a page on {self._api.direct_get} makes no sense: {error!r}") from error
        return reached


def _seconds(stamp: str) -> float:
    """Seconds since 1970 of an RFC 3339 time stamp with any number of digits."""
    return datetime.fromisoformat(stamp).timestamp()
