"""Namespaces of our own, so that nothing that is mounted or joined here is seen outside, or outlives us."""

import os
import shutil
import sys

_INSIDE = "LEADSMAN_FAULTS_INSIDE"


def why_impossible() -> str:
    """Why namespaces cannot be had here; empty if they can."""
    if os.geteuid() != 0:
        return "breaking storage for real needs root"
    for program in ("unshare", "nsenter", "ip", "nft"):
        if shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
            return f"there is no {program}; on Debian and Ubuntu: apt install util-linux iproute2 nftables"
    return ""


def enter() -> None:
    """Start this program anew in namespaces of its own, unless it is in them already."""
    if os.environ.get(_INSIDE) == "1":
        return
    os.environ[_INSIDE] = "1"
    os.environ["PATH"] = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    command = ["unshare", "--mount", "--net", "--propagation", "private", sys.executable, *sys.orig_argv[1:]]
    os.execvp("unshare", command)
