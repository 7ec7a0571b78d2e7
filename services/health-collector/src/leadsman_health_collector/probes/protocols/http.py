"""HTTP and HTTPS, for object storage and for storage behind an HTTP gateway: HEAD of the root.

Source: RFC 9110 and RFC 9112. Nobody is asked for a certificate that we trust, and nothing is downloaded.
"""

import re

from leadsman_health_collector.probes.protocols.exchange import Exchange, WrongAnswerError
from leadsman_health_collector.probes.protocols.tls import TlsExchange

_STATUS_LINE = re.compile(rb"HTTP/1\.[01] (?P<status>[1-5][0-9]{2})(?: [^\r\n]*)?\r?\n")
_BROKEN = frozenset({500, 502, 503, 504})
"""Not the other codes from 500 up: a server that does not know HEAD is alive."""


class HttpPing:
    """Sends one request and reads the first line of the answer; any status but a server's own trouble will do."""

    def __init__(self, *, tls: bool) -> None:
        self._tls = tls

    async def ping(self, exchange: Exchange) -> None:
        """See `Ping.ping`."""
        if self._tls:
            secure = TlsExchange(exchange)
            await secure.start()
            exchange = secure
        host = f"[{exchange.host}]" if ":" in exchange.host else exchange.host
        lines = (
            "HEAD / HTTP/1.1",
            f"Host: {host}",
            "User-Agent: leadsman-health-collector",
            "Connection: close",
            "",
            "",
        )
        await exchange.send("\r\n".join(lines).encode())
        match = _STATUS_LINE.fullmatch(await exchange.receive_line())
        if match is None:
            raise WrongAnswerError("answers with something that is not HTTP")
        if int(match["status"]) in _BROKEN:
            raise WrongAnswerError(f"answers with HTTP status {int(match['status'])}")
