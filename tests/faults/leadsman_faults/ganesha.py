"""A real NFS server: Debian's nfs-ganesha with its VFS backend, without D-Bus, portmapper or help from the kernel."""

import asyncio
import os
from pathlib import Path

from leadsman.testing.process import Process
from leadsman.testing.sockets import accepts
from leadsman_faults.commands import run
from leadsman_faults.network import Machine
from leadsman_faults.node import Node

PROGRAM = "ganesha.nfsd"

_STATE_FOLDERS = ("/run/ganesha", "/var/lib/nfs/ganesha")
"""Compiled into the program; covered by a memory filesystem in our own mount namespace."""

_CONFIGURATION = """\
NFS_CORE_PARAM {{
    Protocols = 4;
    Enable_NLM = false;
    Enable_RQUOTA = false;
}}
NFSV4 {{ Graceless = true; RecoveryBackend = fs; }}
EXPORT {{
    Export_Id = 1; Path = {export}; Pseudo = /export; Protocols = 4;
    Access_Type = RW; Squash = none; SecType = sys;
    FSAL {{ Name = VFS; }}
}}
LOG {{ Default_Log_Level = CRIT; }}
"""


async def _prepare() -> None:
    """Give the program's own folders a memory filesystem, once."""
    for folder in _STATE_FOLDERS:
        if not await asyncio.to_thread(_is_covered, folder):
            await run("mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", folder)


def _is_covered(folder: str) -> bool:
    Path(folder).mkdir(parents=True, exist_ok=True)
    return os.path.ismount(folder)  # nothing of ours that could hang is mounted there


async def start(node: Node, machine: Machine) -> Process:
    """A server on `machine`, answering; it takes every address there."""
    await _prepare()
    folder = node.directory / f"ganesha-{machine.address}"
    export = folder / "export"
    export.mkdir(parents=True, exist_ok=True)
    configuration, log = folder / "ganesha.conf", folder / "ganesha.log"
    configuration.write_text(_CONFIGURATION.format(export=export), encoding="ascii")
    command = [PROGRAM, "-F", "-f", str(configuration), "-L", str(log), "-p", str(folder / "pid")]
    server = node.process("ganesha", machine.inside(*command))
    await node.until(server, f"{machine.address} serves NFS", lambda: accepts((machine.address, 2049)))
    return server
