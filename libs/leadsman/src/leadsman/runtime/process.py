"""Settings of the process itself that matter more than any framework choice (facts: performance, pitfalls 1 and 3)."""

import ctypes
import gc
import sys

_M_TRIM_THRESHOLD = -1
_M_TOP_PAD = -2
_M_MMAP_THRESHOLD = -3


def tune_process() -> None:
    """Keep large buffers mapped between requests and switch threads every millisecond.

    Without the first, glibc returns every large block after each request and faults it in again (2-3 times slower
    for large bodies, measured). Without the second, an exporter thread holds the interpreter for 5 ms at a time.
    On a C library without mallopt (musl) the first part does nothing.
    """
    sys.setswitchinterval(0.001)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    mallopt(_M_MMAP_THRESHOLD, 1 << 30)
    mallopt(_M_TRIM_THRESHOLD, 1 << 30)
    mallopt(_M_TOP_PAD, 64 << 20)


def freeze_heap() -> None:
    """Move everything allocated so far out of the garbage collector's sight; call once when warmed up."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
