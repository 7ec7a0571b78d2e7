"""The node's volume mounts as of now, read once for all probes that look at them."""

import contextlib
from collections.abc import Collection, Mapping
from pathlib import Path

from leadsman.domain.clock import Clock
from leadsman_health_collector.endpoints import Endpoint
from leadsman_health_collector.mount_endpoints import endpoints_of_mounts
from leadsman_health_collector.mountinfo import parse_mounts
from leadsman_health_collector.volumes import VolumeMap, VolumeMount

FRESH_S = 1.0
"""A table younger than this is not read again."""


class MountTable:
    """Superblocks below the kubelet's directory, from `mountinfo`; no mount is ever touched."""

    def __init__(self, mountinfo: Path, volumes: VolumeMap, clock: Clock) -> None:
        self._mountinfo = mountinfo
        self._volumes = volumes
        self._clock = clock
        self._read_at = float("-inf")
        self._text = b""
        self._endpoints: Collection[Endpoint] = ()
        self.latest: Mapping[str, VolumeMount] = {}
        """As last read: superblock (`major:minor`) to what is mounted of it."""

    @property
    def unmapped(self) -> int:
        """CSI mounts whose driver nobody tells."""
        return self._volumes.unmapped

    def current(self) -> Mapping[str, VolumeMount]:
        """`latest`, read anew if it is not fresh.

        Raises:
            OSError: the list of mounts cannot be read; `latest` stands.
        """
        now = self._clock.monotonic()
        if now - self._read_at >= FRESH_S:
            self._read()
            self._read_at = now
        return self.latest

    def endpoints(self) -> Collection[Endpoint]:
        """The servers of the mounts; those of before if the list of mounts cannot be read, which its reader tells."""
        with contextlib.suppress(OSError):
            self.current()
        return self._endpoints

    def _read(self) -> None:
        text = self._mountinfo.read_bytes()
        if text != self._text or self.unmapped:  # a list of mounts rarely changes, and takes long to take apart
            self._text = text
            self.latest = self._volumes.superblocks(parse_mounts(text))
            self._endpoints = endpoints_of_mounts(self.latest.values())
