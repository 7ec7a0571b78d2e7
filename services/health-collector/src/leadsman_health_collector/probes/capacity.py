"""Is a filesystem almost full, by space or by inodes?

Source: the numbers of statvfs(2) that `mount_liveness` gets anyway; no IO of its own.
Period: 3 x the collector's. Deadline: none, it never waits.
Thresholds: `CapacityLow` (degraded) at once at 95 % of space or inodes used, well again below 93 %; from 85 % on the
message says so. Used is what is not available without root's reserve (facts: storage-health 2 row 26, 3.1 P11). One
look decides, because the numbers do not flicker.
Evidence: data path.

A filesystem that nobody can write to (mounted read-only everywhere) is left alone, and so is one that does not tell.

What it cannot tell: quotas of single directories, the space left in a pool behind a thin volume (the canary meets it),
or how fast it fills.
"""

from collections.abc import Callable, Collection, Mapping

from leadsman.domain.reasons import Reason
from leadsman_health_collector.capacity import Capacity, is_writable
from leadsman_health_collector.mount_table import MountTable
from leadsman_health_collector.observation import Kind, Observation, Outcome, not_run
from leadsman_health_collector.probes.probe import Schedule, Source
from leadsman_health_collector.strikes import Thresholds

WARN = 0.85
LOW = 0.95
LOW_NO_MORE = 0.93
"""Shares (0-1) in use."""


class CapacityProbe:
    """Judges what `capacities`, by superblock, says of the volumes of `table`."""

    kind = Kind.CAPACITY
    schedule = Schedule(period=3.0, thresholds=Thresholds(definite=1, failures=1, up=1), second_look=False)

    def __init__(self, table: MountTable, capacities: Callable[[], Mapping[str, Capacity]]) -> None:
        self._table = table
        self._capacities = capacities
        self._sources: dict[str, Source] = {}
        self._judged: dict[str, Capacity] = {}
        self._low: set[str] = set()

    def discover(self) -> Collection[str]:
        """See `Probe.discover`: superblocks as `major:minor`."""
        known = self._capacities()
        self._sources = {
            device: Source(mount.key, mount.volumes, mount.path)
            for device, mount in self._table.current().items()
            if is_writable(mount) and not (device in known and _tells_nothing(known[device]))
        }
        self._judged = {device: one for device, one in self._judged.items() if device in self._sources}
        self._low &= self._sources.keys()
        return self._sources.keys()

    def choose(self, suspects: Collection[str]) -> Collection[str]:
        """See `Probe.choose`: suspects, and those that have answered since they were last judged."""
        return [name for name in self._sources if name in suspects or self._news(name) is not None]

    def sources(self) -> Mapping[str, Source]:
        """See `Probe.sources`."""
        return self._sources

    async def look(self, name: str) -> Observation:
        """See `Probe.look`."""
        capacity = self._news(name)
        if capacity is None:
            return not_run("the mount has not answered since the last look")
        if _tells_nothing(capacity):
            return not_run("the filesystem does not tell how full it is")
        self._judged[name] = capacity
        return self._judge(name, max(capacity.used or 0.0, capacity.inodes_used or 0.0), capacity)

    def _news(self, name: str) -> Capacity | None:
        """What the mount has said since it was last judged."""
        capacity = self._capacities().get(name)
        return None if capacity is self._judged.get(name) else capacity

    def _judge(self, name: str, fullest: float, capacity: Capacity) -> Observation:
        if fullest >= (LOW_NO_MORE if name in self._low else LOW):
            self._low.add(name)
            return Observation(Outcome.IMPAIRED, Reason.CAPACITY_LOW, _words(capacity))
        self._low.discard(name)
        return Observation(Outcome.GOOD, message=_words(capacity) if fullest >= WARN else "")


def _tells_nothing(capacity: Capacity) -> bool:
    return capacity.used is None and capacity.inodes_used is None


def _words(capacity: Capacity) -> str:
    parts = {"space": capacity.used, "inodes": capacity.inodes_used}
    # Rounded down, so that 100 % means that nothing is left.
    shown = [f"{int(share * 100)} % of the {what}" for what, share in parts.items() if share is not None]
    return " and ".join(shown) + " used"
