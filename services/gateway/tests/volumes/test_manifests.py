"""The catalogue in a directory of manifests."""

import asyncio
import contextlib
import time

import pytest
from prometheus_client import CollectorRegistry

from leadsman.domain.errors import ConfigError
from leadsman_gateway.volumes import ManifestCatalogue, ObjectRef
from leadsman_gateway.volumes.manifest_files import ManifestError, read_manifests

CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop}
spec: {volumeName: VOLUME}
"""
VOLUME = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: NAME}
spec: {csi: {driver: nfs.csi.k8s.io, volumeHandle: h, volumeAttributes: {server: nas}}}
"""
REF = ObjectRef("PersistentVolumeClaim", "shop", "data")


def claim(volume="pv-1"):
    return CLAIM.replace("VOLUME", volume)


def volume(name="pv-1"):
    return VOLUME.replace("NAME", name)


@contextlib.asynccontextmanager
async def running(directory, poll_s=0.01):
    catalogue = ManifestCatalogue(directory, registry=CollectorRegistry(), poll_s=poll_s)
    task = asyncio.create_task(catalogue.run())
    try:
        await eventually(lambda: catalogue.synced)
        yield catalogue
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def eventually(condition):
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        await asyncio.sleep(0.005)


async def test_documents_lists_and_json_are_read(tmp_path):
    """Several documents, lists of any kind and JSON files count; other kinds and other files do not."""
    deployment = "kind: Deployment\nmetadata: {name: d}\n"
    (tmp_path / "a.yaml").write_text("---\n" + claim() + "---\n" + volume() + "---\n" + deployment + "---\n")
    (tmp_path / "b.yml").write_text(
        "kind: List\nitems:\n- {kind: CSIDriver, metadata: {name: d}}\n"
        "- {kind: StorageClass, metadata: {name: fast}, provisioner: kubernetes.io/aws-ebs}\n"
    )
    (tmp_path / "c.json").write_text('{"kind": "PersistentVolumeClaimList", "items": [{"metadata": {"name": "own"}}]}')
    (tmp_path / "notes.txt").write_text("kind: {")
    (tmp_path / ".hidden.yaml").write_text("kind: {")
    async with running(tmp_path) as catalogue:
        assert catalogue.claim("shop", "data").volume == "pv-1"
        assert catalogue.claim("default", "own") is not None
        assert catalogue.volume("pv-1").attributes == {"server": "nas"}
        assert catalogue.storage_class("fast").driver == "ebs.csi.aws.com"
        fine, words = catalogue.describe()
        assert fine
        assert words == "2 persistentvolumeclaims, 1 persistentvolumes, 1 storageclasses, 1 csidrivers"


async def test_changed_new_and_deleted_files_are_seen(tmp_path):
    """Within a poll, and with a call to the listeners."""
    (tmp_path / "a.yaml").write_text(claim())
    async with running(tmp_path) as catalogue:
        calls = []
        catalogue.on_change(lambda: calls.append(1))
        (tmp_path / "a.yaml").write_text(claim("pv-22"))
        await eventually(lambda: catalogue.claim("shop", "data").volume == "pv-22")
        (tmp_path / "b.yaml").write_text(volume())
        await eventually(lambda: catalogue.volume("pv-1") is not None)
        (tmp_path / "b.yaml").unlink()
        await eventually(lambda: catalogue.volume("pv-1") is None)
        assert len(calls) == 3


async def test_bad_file_keeps_its_last_good_version(tmp_path):
    """A typing mistake takes nothing away; it shows until it is mended."""
    path = tmp_path / "a.yaml"
    path.write_text(claim())
    async with running(tmp_path) as catalogue:
        path.write_text(claim() + "  volumeName: [")
        await eventually(lambda: not catalogue.describe()[0])
        assert catalogue.claim("shop", "data") is not None
        assert "a.yaml: not YAML" in catalogue.describe()[1]
        assert "its last good version stays in use" in catalogue.describe()[1]
        bad_files = catalogue._metrics.bad_files._value.get()
        path.write_text(claim("pv-2"))
        await eventually(lambda: catalogue.claim("shop", "data").volume == "pv-2")
        assert catalogue.describe()[0]
        assert bad_files == 1


async def test_bad_file_at_the_start_hides_no_other(tmp_path):
    """The good files are used; the bad one is named."""
    (tmp_path / "a.yaml").write_text("kind: [")
    (tmp_path / "b.yaml").write_text(claim())
    async with running(tmp_path) as catalogue:
        assert catalogue.claim("shop", "data") is not None
        assert "a.yaml" in catalogue.describe()[1]
        (tmp_path / "a.yaml").unlink()
        await eventually(lambda: catalogue.describe()[0])


async def test_first_of_two_files_decides(tmp_path):
    """The same object in two files is shown as a mistake, and the outcome does not depend on chance."""
    (tmp_path / "a.yaml").write_text(claim("pv-a"))
    (tmp_path / "b.yaml").write_text(claim("pv-b"))
    async with running(tmp_path) as catalogue:
        assert catalogue.claim("shop", "data").volume == "pv-a"
        assert catalogue.describe() == (
            False,
            "b.yaml: PersistentVolumeClaim data is already in a.yaml, which decides",
        )
        (tmp_path / "a.yaml").unlink()
        await eventually(lambda: catalogue.claim("shop", "data").volume == "pv-b")
        assert catalogue.describe()[0]


async def test_mounted_config_map_is_followed(tmp_path):
    """Files that are links into a hidden directory change when the directory is swapped."""
    for version in ("1", "2"):
        (tmp_path / f"..{version}").mkdir()
        (tmp_path / f"..{version}" / "a.yaml").write_text(claim(f"pv-{version}"))
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    async with running(tmp_path) as catalogue:
        assert catalogue.claim("shop", "data").volume == "pv-1"
        (tmp_path / "..tmp").symlink_to("..2")
        (tmp_path / "..tmp").rename(tmp_path / "..data")
        await eventually(lambda: catalogue.claim("shop", "data").volume == "pv-2")


async def test_fetch_looks_at_the_files_now(tmp_path):
    """A claim written a moment ago is found without waiting for the next poll."""
    async with running(tmp_path, poll_s=600) as catalogue:
        assert not await catalogue.fetch([REF])
        (tmp_path / "a.yaml").write_text(claim())
        assert not await catalogue.fetch([])
        assert await catalogue.fetch([REF])
        assert catalogue.claim("shop", "data") is not None


async def test_missing_directory_is_a_plain_error(tmp_path):
    """The message names it and says what to give."""
    catalogue = ManifestCatalogue(tmp_path / "gone", registry=CollectorRegistry())
    with pytest.raises(ConfigError, match="gone: no such directory; name one that holds manifests"):
        await catalogue.run()


async def test_directory_that_vanishes_leaves_the_last_state(tmp_path):
    """What was read stays in use, and the loss is shown."""
    directory = tmp_path / "m"
    directory.mkdir()
    (directory / "a.yaml").write_text(claim())
    async with running(directory) as catalogue:
        directory.rename(tmp_path / "elsewhere")
        await eventually(lambda: "cannot be listed" in catalogue.describe()[1])
        assert catalogue.claim("shop", "data") is not None
        (tmp_path / "elsewhere").rename(directory)
        await eventually(lambda: catalogue.describe()[0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: {", "m.yaml: not YAML"),
        ("- 1", "m.yaml: a document is not a Kubernetes object: it has no kind"),
        ("metadata: {name: x}", "it has no kind"),
        ("kind: 7", "it has no kind"),
        ("kind: List\nitems: {a: b}", "m.yaml: List: items is not a list"),
        ("kind: List\nitems: [x]", "it has no kind"),
        (
            "kind: PersistentVolumeClaim",
            r"m.yaml: PersistentVolumeClaim \(no name\): .*missing required field `metadata`",
        ),
        ("kind: PersistentVolume\nmetadata: {}", "missing required field `name`"),
        (volume().replace("nas", "1"), "m.yaml: PersistentVolume pv-1: Expected `str`, got `int` - at"),
        ("kind: StorageClass\nmetadata: {name: s}", "m.yaml: StorageClass s: .*missing required field `provisioner`"),
        (claim() + "---" + claim(), "m.yaml: PersistentVolumeClaim shop/data is there twice; remove one"),
        (b"\xff\xfe\xfa", "m.yaml: cannot be read"),
    ],
)
def test_messages_name_file_and_object(tmp_path, text, message):
    """Whoever wrote the file can find the mistake."""
    path = tmp_path / "m.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ManifestError, match=message):
        read_manifests(path)


def test_unreadable_file_is_named(tmp_path):
    """A file that is not there is an error like any other."""
    with pytest.raises(ManifestError, match=r"m\.yaml: cannot be read"):
        read_manifests(tmp_path / "m.yaml")
