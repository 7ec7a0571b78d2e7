"""CSI sockets below the kubelet's plugin directory, found without ever entering another mount.

The directory's name is not the driver's name (`csi-nfsplugin` holds `nfs.csi.k8s.io`). The driver tells it; of one that
does not answer, the socket by which it was registered with the kubelet may.
"""

import contextlib
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from leadsman_health_collector.volumes import DRIVER_NAME

SOCKET_NAME = "csi.sock"
_DEPTH = 2
_REGISTRATION_SUFFIX = "-reg.sock"


@dataclass(frozen=True, slots=True)
class PluginSockets:
    """What a scan found: socket files, and the directories that could hold one."""

    sockets: frozenset[str]
    directories: frozenset[str]


def scan_plugin_sockets(kubelet_dir: Path) -> PluginSockets:
    """The `csi.sock` files one and two levels below `<kubelet_dir>/plugins`.

    A directory on which something is mounted is not entered: listing it could hang for ever. That is told from the
    mount id of a handle that was opened without access (O_PATH), so that no mount can slip in between.

    Raises:
        OSError: the plugins directory cannot be read, so nothing is known about any driver.
    """
    top = kubelet_dir / "plugins"
    with _opened(os.open(top, os.O_PATH | os.O_DIRECTORY)) as handle:
        scan = _Scan(_mount_id(handle))
        scan.list(handle, str(top), _DEPTH)
    return PluginSockets(frozenset(scan.sockets), frozenset(scan.directories))


def registered_names(kubelet_dir: Path) -> list[str]:
    """Names that registration sockets claim (`plugins_registry/<driver>-reg.sock`), sorted; none without a registry.

    node-driver-registrar names its socket so, and removes it on a clean stop; after any other end it stays.
    """
    try:
        files = [path.name for path in (kubelet_dir / "plugins_registry").iterdir()]
    except OSError:
        return []
    names = [file.removesuffix(_REGISTRATION_SUFFIX) for file in files if file.endswith(_REGISTRATION_SUFFIX)]
    return sorted(name for name in names if DRIVER_NAME.fullmatch(name))


def match_names(sockets: Collection[str], names: Collection[str]) -> dict[str, str]:
    """Driver by socket path, for `sockets` that tell no name and registered `names` that no other socket tells.

    A socket in a directory called like a driver is that driver's; of the rest, a single socket has a single name left.
    Anything else would be a guess, and a guess could put one driver's fault on another.
    """
    folders = {socket: Path(socket).parent.name for socket in sockets}
    matched = {socket: folder for socket, folder in folders.items() if folder in names}
    left = [socket for socket in sockets if socket not in matched]
    unclaimed = [name for name in names if name not in matched.values()]
    if len(left) == len(unclaimed) == 1:
        matched[left[0]] = unclaimed[0]
    return matched


class _Scan:
    """A walk through directories of one mount."""

    def __init__(self, mount_id: int) -> None:
        self.sockets: set[str] = set()
        self.directories: set[str] = set()
        self._mount_id = mount_id

    def list(self, handle: int, path: str, depth: int) -> None:
        """Note the directory `handle` and what is in it, `depth` further levels down."""
        self.directories.add(path)
        for name, is_directory in _entries(handle):
            if is_directory and depth > 0:
                self._enter(handle, name, f"{path}/{name}", depth - 1)
            elif name == SOCKET_NAME and not is_directory and depth < _DEPTH:
                self.sockets.add(f"{path}/{name}")

    def _enter(self, handle: int, name: str, path: str, depth: int) -> None:
        try:
            with _opened(os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)) as child:
                if _mount_id(child) == self._mount_id:
                    self.list(child, path, depth)
        except OSError:  # removed meanwhile
            return


def _entries(directory: int) -> list[tuple[str, bool]]:
    """Names in `directory`, and whether each is a directory itself (from the directory alone, nothing is touched)."""
    with (
        _opened(os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=directory)) as readable,
        os.scandir(readable) as found,
    ):
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]


def _mount_id(handle: int) -> int:
    with open(f"/proc/self/fdinfo/{handle}", encoding="ascii") as lines:  # noqa: PTH123 - a kernel interface
        return next(int(line.split()[1]) for line in lines if line.startswith("mnt_id:"))


@contextlib.contextmanager
def _opened(handle: int) -> Iterator[int]:
    try:
        yield handle
    finally:
        os.close(handle)
