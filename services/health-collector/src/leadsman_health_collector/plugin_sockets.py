"""CSI sockets below the kubelet's directory, found without ever entering another mount.

The directory's name is not the driver's name (`csi-nfsplugin` holds `nfs.csi.k8s.io`). The driver tells it; of one that
does not answer, the socket by which it was registered with the kubelet may.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Collection, Iterator, KeysView, Mapping
from dataclasses import dataclass
from pathlib import Path

from leadsman_health_collector.plugins import Instance
from leadsman_health_collector.volume_data import DRIVER_NAME

SOCKET_NAME = "csi.sock"
REGISTRY = "plugins_registry"
PLUGINS = "plugins"
_DEPTH = 2
_REGISTRATION_SUFFIX = "-reg.sock"


@dataclass(frozen=True, slots=True)
class PluginSockets:
    """What a scan found: socket files with the process that serves each, and directories that could hold one."""

    instances: Mapping[str, Instance]
    directories: frozenset[str]

    @property
    def sockets(self) -> KeysView[str]:
        """Their paths."""
        return self.instances.keys()

    def __or__(self, other: "PluginSockets") -> "PluginSockets":
        return PluginSockets({**self.instances, **other.instances}, self.directories | other.directories)


NO_SOCKETS = PluginSockets({}, frozenset())


def scan_plugin_sockets(kubelet_dir: Path) -> PluginSockets:
    """The `csi.sock` files one and two levels below `<kubelet_dir>/plugins`.

    A directory on which something is mounted is not entered: listing it could hang for ever. That is told from the
    mount id of a handle that was opened without access (O_PATH), so that no mount can slip in between. Symbolic links
    are not followed, for the same reason.

    Raises:
        OSError: the plugins directory cannot be read, so nothing is known about any driver.
    """
    top = kubelet_dir / PLUGINS
    with _opened(os.open(top, os.O_PATH | os.O_DIRECTORY)) as handle:
        scan = _Scan(_mount_id(handle))
        scan.list(handle, str(top), _DEPTH)
    return PluginSockets(scan.instances, frozenset(scan.directories))


def find_socket(kubelet_dir: Path, path: str) -> PluginSockets:
    """The socket at `path`, if it is there, and its directory, if that is; nothing outside `kubelet_dir`.

    As careful as `scan_plugin_sockets`, at any depth: neither links nor mounts on the way are entered.
    """
    prefix = f"{kubelet_dir}/"
    *folders, name = path.removeprefix(prefix).split("/")
    if not path.startswith(prefix) or not folders or {"", ".", ".."} & {*folders, name}:
        return NO_SOCKETS
    # The kubelet's own two directories may be mounted into our container one by one.
    top = [folders.pop(0)] if folders[0] in {PLUGINS, REGISTRY} else []
    try:
        with contextlib.ExitStack() as stack:
            handle = stack.enter_context(_opened(os.open(kubelet_dir.joinpath(*top), os.O_PATH | os.O_DIRECTORY)))
            scan = _Scan(_mount_id(handle))
            for folder in folders:
                handle = stack.enter_context(scan.entered(handle, folder))
            return scan.only(handle, name, path)
    except OSError:
        return NO_SOCKETS


def find_only_socket(path: Path) -> PluginSockets:
    """The socket at `path` of a driver beside us in one pod, which shares with us the directory that it lies in.

    Raises:
        OSError: that directory is not there, so the pod is not put together as it should be.
    """
    with _opened(os.open(path.parent, os.O_PATH | os.O_DIRECTORY)) as handle:
        return _Scan(_mount_id(handle)).only(handle, path.name, str(path))


def registration_sockets(kubelet_dir: Path) -> PluginSockets:
    """The `*-reg.sock` files in `<kubelet_dir>/plugins_registry`; none without such a directory.

    Raises:
        OSError: it is there and cannot be read.
    """
    top = kubelet_dir / REGISTRY
    try:
        opened = os.open(top, os.O_PATH | os.O_DIRECTORY)
    except FileNotFoundError:
        return NO_SOCKETS
    with _opened(opened) as handle:
        scan = _Scan(_mount_id(handle))
        for name, is_directory in _entries(handle):
            if name.endswith(_REGISTRATION_SUFFIX) and not is_directory:
                with contextlib.suppress(OSError):  # removed meanwhile
                    scan.note(handle, name, f"{top}/{name}")
    return PluginSockets(scan.instances, frozenset({str(top)}))


def claimed_name(registration_socket: str) -> str:
    """The driver that a registration socket claims by its own name; empty if that is no driver's name.

    node-driver-registrar names its socket `<driver>-reg.sock`, and removes it on a clean stop; else it stays.
    """
    name = registration_socket.rpartition("/")[2].removesuffix(_REGISTRATION_SUFFIX)
    return name if DRIVER_NAME.fullmatch(name) else ""


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
        self.instances: dict[str, Instance] = {}
        self.directories: set[str] = set()
        self._mount_id = mount_id

    def list(self, handle: int, path: str, depth: int) -> None:
        """Note the directory `handle` and what is in it, `depth` further levels down."""
        self.directories.add(path)
        for name, is_directory in _entries(handle):
            with contextlib.suppress(OSError):  # removed meanwhile, or not of this mount
                if is_directory and depth > 0:
                    with self.entered(handle, name) as child:
                        self.list(child, f"{path}/{name}", depth - 1)
                elif name == SOCKET_NAME and not is_directory and depth < _DEPTH:
                    self.note(handle, name, f"{path}/{name}")

    @contextlib.contextmanager
    def entered(self, handle: int, name: str) -> Iterator[int]:
        """The directory `name` in `handle`.

        Raises:
            OSError: it is not there, no directory, or not of this mount.
        """
        with _opened(os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)) as child:
            self._check(child)
            yield child

    def only(self, handle: int, name: str, path: str) -> PluginSockets:
        """The directory `handle` and the socket `name` in it, if it is there; `path` is that socket's."""
        with contextlib.suppress(OSError):
            self.note(handle, name, path)
        return PluginSockets(self.instances, frozenset({path.rpartition("/")[0]}))

    def note(self, handle: int, name: str, path: str) -> None:
        """Note the socket `name` in the directory `handle`, unless it is a link, or its path is no text.

        Raises:
            OSError: it is not there, or not of this mount.
        """
        with _opened(os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=handle)) as file:
            self._check(file)
            seen = os.fstat(file)
        if not stat.S_ISLNK(seen.st_mode) and path.isprintable():
            self.instances[path] = Instance(seen.st_ino, seen.st_ctime_ns)

    def _check(self, handle: int) -> None:
        if _mount_id(handle) != self._mount_id:
            raise OSError(errno.EXDEV, "something else is mounted there")


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
