"""`leadsman-health-collector check`: one pass over a machine with real drivers, servers and mounts."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

NFS = "nfs.csi.k8s.io"


async def check(stage, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command on the stage's kubelet directory."""
    command = [sys.executable, "-m", "leadsman_health_collector", "check", "--kubelet-dir", str(stage.kubelet)]
    command += ["--probe-deadline", "300ms", *arguments]
    return await asyncio.to_thread(subprocess.run, command, check=False, capture_output=True, text=True, timeout=40)


async def looked_at(stage, *arguments: str) -> tuple[int, dict]:
    """The exit code and the JSON."""
    done = await check(stage, "-o", "json", *arguments)
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout)


def only_the_stage(stage) -> tuple[str, str]:
    """A list of mounts with those of the stage only: what else this machine has mounted is not ours to judge."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines(keepends=True)
    path = stage.directory / "mountinfo"
    path.write_text("".join(line for line in lines if f" {stage.directory}/" in line))
    return "--mountinfo", str(path)


def states(found: dict) -> dict[str, tuple[str, str | None]]:
    """State and reason by driver and backend."""
    return {f"{one['driver']}/{one['backend']}": (one["state"], one["reason"]) for one in found["storages"]}


def config(stage, *ports: int) -> tuple[str, str]:
    """A configuration with one endpoint for each of `ports`."""
    path = stage.directory / "config.yaml"
    lines = [f"  - {{driver: {NFS}, backend: server-{n}, address: 127.0.0.1:{port}}}" for n, port in enumerate(ports)]
    head = "apiVersion: leadsman.dev/v1alpha1\nkind: HealthCollectorConfiguration\nendpoints:\n"
    path.write_text(head + "\n".join(lines) + "\n")
    return "--config", str(path)


async def test_a_machine_that_is_well(stage):
    """Everything found is told with its state and latency, what is not there is told with the reason; exit code 0."""
    async with stage.identity(NFS, "nfs"):
        _, port = await stage.tcp_backend()
        code, found = await looked_at(stage, *config(stage, port), *only_the_stage(stage))
    assert code == 0
    assert states(found) == {f"{NFS}/": ("HEALTHY", None), f"{NFS}/server-0": ("HEALTHY", None)}
    by_probe = {one["probe"]: one for one in found["looks"]}
    assert by_probe["protocol_ping"]["place"] == f"127.0.0.1:{port}"
    assert by_probe["csi_plugin"]["latency_s"] > 0
    skipped = {one["what"]: one["why"] for one in found["skipped"]}
    assert skipped["mount_liveness"] == "no storage is mounted"
    assert "canary" in skipped["canary_io"]
    assert found["facts"]["cpu.count"] >= 1


async def test_what_is_broken_is_confirmed_and_decides_the_exit_code(stage):
    """A refusing server and a dead driver are told apart from a healthy one; the table says the same as the JSON."""
    dead = stage.kubelet / "plugins" / "smb" / "csi.sock"
    dead.parent.mkdir()
    driver, path = await stage.csi_driver("smb.csi.k8s.io", "--error", "INTERNAL", folder="smb")
    assert path == dead
    _, port = await stage.tcp_backend()
    options = (*config(stage, port, 1), *only_the_stage(stage))
    code, found = await looked_at(stage, *options)
    assert code == 1
    assert states(found)[f"{NFS}/server-0"] == ("HEALTHY", None)
    assert states(found)[f"{NFS}/server-1"] == ("UNHEALTHY", "EndpointRefused")
    assert states(found)["smb.csi.k8s.io/"] == ("UNHEALTHY", "DriverNotResponding")
    table = await check(stage, *options)
    assert table.returncode == 1
    assert "EndpointRefused" in table.stdout
    assert "\x1b" not in table.stdout
    driver.kill()


async def test_a_hung_mount_is_told_and_holds_nothing_up(stage, can_mount):
    """The pass ends, names the mount, and leaves no process that could be ended."""
    point = stage.kubelet / "pods" / "uid" / "volumes" / "kubernetes.io~csi" / "pv-1" / "mount"
    point.parent.mkdir(parents=True)
    (point.parent / "vol_data.json").write_text(json.dumps({"driverName": NFS, "specVolID": "pv-1"}))
    await stage.fuse_mount(point, "10.0.0.9:/e", "--hung")
    code, found = await looked_at(stage, *only_the_stage(stage))
    assert code == 1
    assert states(found)[f"{NFS}/10.0.0.9"] == ("UNHEALTHY", "MountHung")
    assert str(point) in {one["place"] for one in found["looks"]}


async def test_a_machine_without_kubernetes_has_its_own_mounts_looked_at(stage, can_mount):
    """No driver, no kubelet: the storage that is mounted counts all the same."""
    await stage.fuse_mount(stage.directory / "data", "10.0.0.9:/e")
    code, found = await looked_at(stage, "--kubelet-dir", str(stage.directory / "no-kubelet"), *only_the_stage(stage))
    assert code == 0
    assert states(found) == {"/10.0.0.9": ("HEALTHY", None)}
    skipped = {one["what"]: one["why"] for one in found["skipped"]}
    assert "cannot tell what to look at" in skipped["csi_plugin"]


async def test_a_file_that_cannot_be_used_is_one_sentence_and_its_own_exit_code(stage):
    """5: the check itself failed; nothing is said about storage."""
    done = await check(stage, "--config", "/no.yaml")
    assert done.returncode == 5
    assert done.stderr.startswith("error: /no.yaml: cannot be read: No such file or directory")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
