"""Become a command that dies with the process that asked for it: `with_parent.py PID COMMAND...`.

A killed parent runs no clean-up; Linux then sends SIGKILL to the command. This is a program of its own, standard
library only, because code run between fork and exec (`preexec_fn`) is unsafe in a process with threads.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask the kernel for the signal, then become the command."""
    prctl = getattr(ctypes.CDLL(None, use_errno=True), "prctl", None)  # only Linux can do it
    if prctl is not None and prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != int(sys.argv[1]):  # it ended before the kernel knew what we want
        sys.exit("the parent ended before the command started")
    os.execvp(sys.argv[2], sys.argv[2:])  # becoming another program is the point


if __name__ == "__main__":
    main()
