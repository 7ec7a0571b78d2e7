"""Run a command that dies with the process that asked for it: `with_parent.py PID COMMAND…`.

A killed pytest runs no clean-up. The kernel then sends SIGKILL to the command instead. This is a
program of its own because a function run between fork and exec (`preexec_fn`) is unsafe in a
process with threads, and newer Pythons warn about it.

The kernel watches the *thread* that started the command, so start processes from a thread that
lives as long as they should.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask the kernel for the signal, then become the command."""
    parent = int(sys.argv[1])
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        sys.exit("the parent ended before the command started")
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
