"""A pod file's volumes resolved as the gateway would: from manifests, and from an API server."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from leadsman.domain.requirements import Requirement
from leadsman.testing.kube_api import Failure, FakeApi
from leadsman.wire.pod import Pod
from leadsman_cli.errors import CommandError
from leadsman_cli.pod_volumes import VolumeSource, resolve
from leadsman_gateway.volumes import Resolution

pytestmark = pytest.mark.integration

CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "namespace": "shop"},
    "spec": {"volumeName": "pv-1", "storageClassName": "nfs"},
}
VOLUME = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "pv-1"},
    "spec": {"csi": {"driver": "nfs.csi.k8s.io", "volumeHandle": "h", "volumeAttributes": {"server": "10.0.0.9"}}},
}
NEED = Requirement("nfs.csi.k8s.io", "10.0.0.9", "pv-1")


def pod(*volumes: dict[str, Any]) -> Pod:
    document = {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"volumes": list(volumes)}}
    return msgspec.convert(document, Pod)


WITH_CLAIM = pod({"name": "data", "persistentVolumeClaim": {"claimName": "data"}})


@pytest.fixture
async def server() -> AsyncIterator[FakeApi]:
    async with FakeApi() as running:
        yield running


async def resolved(wanted: Pod, source: VolumeSource) -> Resolution:
    """`resolve` runs an event loop of its own."""
    return await asyncio.to_thread(resolve, wanted, source, {})


def manifests(directory: Path) -> VolumeSource:
    for number, document in enumerate((CLAIM, VOLUME)):
        (directory / f"{number}.json").write_bytes(msgspec.json.encode(document))
    return VolumeSource(manifests=directory)


def test_a_pod_without_volumes_needs_no_source() -> None:
    """Nor does one whose volumes have no storage behind them."""
    assert resolve(pod({"name": "tmp", "emptyDir": {}}), VolumeSource(), {}) == Resolution()


def test_a_pod_with_volumes_needs_a_source() -> None:
    """The message says how to name one."""
    with pytest.raises(CommandError, match="pod web has volumes; say where claims are known from: --kubeconfig FILE"):
        resolve(WITH_CLAIM, VolumeSource(), {})


def test_manifests_are_read_once(tmp_path: Path) -> None:
    """Claim and volume lead to driver and backend; the policy's attributes name another backend."""
    source = manifests(tmp_path)
    assert resolve(WITH_CLAIM, source, {}).requirements == (NEED,)
    other = {"nfs.csi.k8s.io": "share"}
    assert resolve(WITH_CLAIM, source, other).requirements == (Requirement("nfs.csi.k8s.io", "", "pv-1"),)


def test_a_claim_that_is_not_there_leaves_its_volume_unresolved(tmp_path: Path) -> None:
    """It is named, and needs nothing."""
    resolution = resolve(pod({"name": "v", "persistentVolumeClaim": {"claimName": "other"}}), manifests(tmp_path), {})
    assert (resolution.requirements, resolution.unresolved) == ((), ("v",))


def test_bad_manifests_are_an_error(tmp_path: Path) -> None:
    """Answering without them would be a guess."""
    (tmp_path / "bad.yaml").write_text("kind: [")
    with pytest.raises(CommandError, match=r"bad\.yaml: not YAML"):
        resolve(WITH_CLAIM, VolumeSource(manifests=tmp_path), {})


async def test_a_cluster_is_asked_for_what_the_pod_names_only(server: FakeApi, tmp_path: Path) -> None:
    """The claim, then its volume and class; nothing is listed or watched."""
    await server.put("persistentvolumeclaims", CLAIM)
    await server.put("persistentvolumes", VOLUME)
    source = VolumeSource(kubeconfig=server.kubeconfig(tmp_path))
    assert (await resolved(WITH_CLAIM, source)).requirements == (NEED,)
    assert server.count("watch") == 0


async def test_what_the_cluster_does_not_have_is_unresolved(server: FakeApi, tmp_path: Path) -> None:
    """As at the gateway, that is no error."""
    source = VolumeSource(kubeconfig=server.kubeconfig(tmp_path))
    assert (await resolved(WITH_CLAIM, source)).unresolved == ("data",)


async def test_a_cluster_that_refuses_is_an_error(server: FakeApi, tmp_path: Path) -> None:
    """With what it says."""
    server.failures.append(Failure(403))
    source = VolumeSource(kubeconfig=server.kubeconfig(tmp_path))
    with pytest.raises(CommandError, match=r"claims and volumes cannot be read from the cluster: .*403"):
        await resolved(WITH_CLAIM, source)


async def test_a_cluster_out_of_reach_is_an_error(server: FakeApi, tmp_path: Path) -> None:
    """In one line, and soon."""
    source = VolumeSource(kubeconfig=server.kubeconfig(tmp_path))
    await server.stop()
    with pytest.raises(CommandError, match="claims and volumes cannot be read from the cluster: "):
        await resolved(WITH_CLAIM, source)
