"""Ceph: the banner that a monitor sends to whoever connects, before anything is asked.

Source: Ceph, src/include/msgr.h: `ceph v2` and a line feed on port 3300 (msgr2), `ceph v027` on port 6789 (msgr1).
"""

from leadsman_health_collector.probes.protocols.exchange import Exchange, WrongAnswerError

_BANNERS = (b"ceph v2\n", b"ceph v02")
"""Both cut to the length of the shorter one."""


class CephPing:
    """Reads the banner; either will do, whatever the port."""

    async def ping(self, exchange: Exchange) -> None:
        """See `Ping.ping`."""
        if await exchange.receive(len(_BANNERS[0])) not in _BANNERS:
            raise WrongAnswerError("does not greet like a Ceph monitor")
