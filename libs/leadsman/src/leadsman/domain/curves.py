"""How good a number about a node is: piecewise curves from 1 (as good as any) to 0 (the worst there is).

| component      | from                                                             | 1         | 0        |
| -------------- | ---------------------------------------------------------------- | --------- | -------- |
| storageLatency | `latencySeconds` of the storage                                  | to 10 ms  | 100 ms   |
| ioPressure     | `pressure.io.someAvg10`                                          | to 0.05   | 0.6      |
|                | without it `disk.utilizationMax`                                 | to 0.5    | 1.0      |
| capacity       | the larger of `used` and `inodesUsed` of the storage             | to 0.7    | 0.98     |
| cpu            | `cpu.idle`                                                       | from 0.5  | 0.02     |
| memory         | `memory.availableShare`                                          | from 0.3  | 0.03     |
| gpu            | `gpu.memoryFreeBytes` / `gpu.memoryTotalBytes`                   | from 0.5  | 0        |
| nearness       | the node's zone and region; same region 0.5, elsewhere 0         | same zone | elsewhere |

Straight in between, in the logarithm for latency. The plateaus at 1 are on purpose: nodes that are all well must be
equal, so that kube-scheduler spreads pods over them and noise in a measurement herds them nowhere. None is not known.
"""

from collections.abc import Collection
from math import log

from leadsman.domain.node_facts import NodeFacts, StorageFacts
from leadsman.domain.requirements import Near

SAME_REGION = 0.5
"""What a node is worth that is in the region of the pod's data, but not known to be in its zone."""

_QUICK_S, _SLOW_S = 0.01, 0.1
_RANGE = log(_SLOW_S / _QUICK_S)


def falling(value: float, good_to: float, bad_from: float) -> float:
    """1 up to `good_to`, straight down to 0 at `bad_from`."""
    if value <= good_to:
        return 1.0
    return (bad_from - value) / (bad_from - good_to) if value < bad_from else 0.0


def rising(value: float, bad_to: float, good_from: float) -> float:
    """0 up to `bad_to`, straight up to 1 at `good_from`."""
    if value >= good_from:
        return 1.0
    return (value - bad_to) / (good_from - bad_to) if value > bad_to else 0.0


def storage_latency(storage: StorageFacts) -> float | None:
    """How quickly a storage answered (`latencySeconds`): 1 up to 10 ms, 0.5 at 32 ms, 0 from 100 ms."""
    seconds = storage.latency_s
    if seconds is None:
        return None
    if seconds <= _QUICK_S:
        return 1.0
    return log(_SLOW_S / seconds) / _RANGE if seconds < _SLOW_S else 0.0


def capacity(storage: StorageFacts) -> float | None:
    """How much room a storage has (`used` and `inodesUsed`, shares): 1 up to 0.7 in use, 0 from 0.98."""
    used, inodes = storage.used, storage.inodes_used
    if used is None or (inodes is not None and inodes > used):
        used = inodes
    return None if used is None else falling(used, 0.7, 0.98)


def io_pressure(node: NodeFacts) -> float | None:
    """How seldom tasks wait for IO (`pressure.io.someAvg10`): 1 up to 0.05 of the time, 0 from 0.6.

    Kernels without pressure stall information tell how busy the busiest disk is (`disk.utilizationMax`): 1 up to 0.5
    of the time, 0 at 1.
    """
    waiting = node.number("pressure.io.someAvg10")
    if waiting is not None:
        return falling(waiting, 0.05, 0.6)
    busy = node.number("disk.utilizationMax")
    return None if busy is None else falling(busy, 0.5, 1.0)


def cpu(node: NodeFacts) -> float | None:
    """How idle the CPUs are (`cpu.idle`, share): 1 from 0.5, 0 up to 0.02."""
    idle = node.number("cpu.idle")
    return None if idle is None else rising(idle, 0.02, 0.5)


def memory(node: NodeFacts) -> float | None:
    """How much memory can be had without swapping (`memory.availableShare`): 1 from 0.3, 0 up to 0.03."""
    available = node.number("memory.availableShare")
    return None if available is None else rising(available, 0.03, 0.3)


def gpu(node: NodeFacts) -> float | None:
    """How much memory of all GPUs is free (`gpu.memoryFreeBytes` of `gpu.memoryTotalBytes`): 1 from a half, 0 at none.

    0 where the GPUs' driver does not answer (`gpu.responding` is 0), which hides the other two.
    """
    if node.number("gpu.responding") == 0:
        return 0.0
    free, total = node.number("gpu.memoryFreeBytes"), node.number("gpu.memoryTotalBytes")
    if free is None or total is None or total <= 0:
        return None
    return rising(free / total, 0.0, 0.5)


def nearness(zone: str, region: str, near: Near, regions: Collection[str]) -> float | None:
    """How near a node in `zone` and `region` (its topology labels, empty if absent) is to a pod's data.

    1 in one of its zones, 0.5 in one of `regions` (those of the data, and those in which its zones lie), else 0. None
    if the node has neither label.
    """
    if zone and zone in near.zones:
        return 1.0
    if region and region in regions:
        return SAME_REGION
    return 0.0 if zone or region else None
