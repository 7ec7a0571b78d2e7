"""Let a test double end with the process that started it, however that process ends."""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Ask the kernel for SIGTERM to this process when the thread that started it ends (prctl(2), PR_SET_PDEATHSIG).

    Start the double from a thread that lives as long as it should, usually the main thread.
    """
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it ended before the kernel knew
        os.kill(os.getpid(), signal.SIGTERM)
