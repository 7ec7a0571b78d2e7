"""Volumes as a kubelet lays them out: the files beside a mount, ext4 on loop devices, a pod's other mounts."""

import json
import shutil
import subprocess
import uuid
from collections.abc import Iterable
from pathlib import Path

from leadsman.domain.errors import LeadsmanError
from leadsman_bench.reach_world import NODE, Driver, Volume

_IMAGE_BYTES = 16 << 20


class CannotMeasureError(LeadsmanError):
    """This machine lacks what the benchmark needs; the message says what."""


def can_make_ext4() -> bool:
    """Whether ext4 on loop devices can be had here."""
    return Path("/dev/loop-control").exists() and all(map(shutil.which, ("mkfs.ext4", "losetup")))


def publish(kubelet: Path, driver: Driver, volume: Volume) -> Path:
    """Make a pod with `volume` and its token; where the volume is to be mounted."""
    pod = kubelet / "pods" / str(uuid.uuid5(uuid.NAMESPACE_DNS, volume.name)) / "volumes"
    token = pod / "kubernetes.io~projected" / "kube-api-access"
    token.mkdir(parents=True)
    mount("-t", "tmpfs", "-o", "size=64k", "tmpfs", str(token))
    return _describe(pod / "kubernetes.io~csi" / volume.name, "mount", driver, volume)


def stage_block(kubelet: Path, driver: Driver, volume: Volume, image: Path, place: Path) -> None:
    """Put ext4 into `image`, mount it where the kubelet stages `volume`, and from there at `place`."""
    with image.open("wb") as file:
        file.truncate(_IMAGE_BYTES)
    run("mkfs.ext4", "-q", "-F", str(image))
    folder = (
        kubelet / "plugins" / "kubernetes.io" / "csi" / driver.name / uuid.uuid5(uuid.NAMESPACE_URL, volume.name).hex
    )
    staged = _describe(folder, "globalmount", driver, volume)
    for directory in (staged, place):
        directory.mkdir(exist_ok=True)
    mount("-t", "ext4", "-o", "loop", str(image), str(staged))
    mount("--bind", str(staged), str(place))


def mount(*arguments: str) -> None:
    """Run mount(8).

    Raises:
        CannotMeasureError: it fails.
    """
    run("mount", *arguments)


def run(*command: str) -> None:
    """Run a program of the machine to its end.

    Raises:
        CannotMeasureError: it fails or is missing.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise CannotMeasureError(f"cannot run {command[0]}: {error.strerror}") from error
    if done.returncode:
        raise CannotMeasureError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")


def mount_points() -> list[str]:
    """Where anything is mounted in our namespace, by the kernel's list."""
    return [line.split()[4] for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()]


def unmount_below(folder: Path) -> None:
    """Take away all mounts below `folder`, the last first, without touching any."""
    for place in reversed(mount_points()):
        if place.startswith(f"{folder}/"):
            run("umount", "--lazy", place)


def all_mounted(places: Iterable[Path]) -> bool:
    """Whether something is mounted at each of `places`."""
    return {str(place) for place in places} <= {*mount_points()}


def _describe(folder: Path, name: str, driver: Driver, volume: Volume) -> Path:
    """Write `vol_data.json` into `folder`; the place of the mount beside it."""
    folder.mkdir(parents=True)
    described = {
        "driverName": driver.name,
        "nodeName": NODE,
        "specVolID": volume.name,
        "volumeHandle": volume.handle,
        "volumeLifecycleMode": "Persistent",
    }
    (folder / "vol_data.json").write_text(json.dumps(described), encoding="utf-8")
    return folder / name
