"""The small file that is written and read back, and what its failure says."""

import errno
import os
import time

import pytest

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman_health_collector import mount_worker
from leadsman_health_collector.mount_worker import canary, canary_job
from leadsman_health_collector.observation import Outcome
from leadsman_health_collector.probes.canary_io import CanaryIoProbe
from leadsman_health_collector.workers import Finished, Overdue, Refused

KEY = StorageKey("nfs.csi.k8s.io", "10.0.0.9")
PREFIX = ".leadsman-canary-0123456789ab-"
SUFFIX = "00112233445566ff"


def write(directory):
    return canary(os.fsencode(directory), PREFIX.encode(), SUFFIX.encode())


def test_a_canary_leaves_nothing_behind(tmp_path):
    """It is written, read and removed."""
    (tmp_path / "mine").write_text("other")
    assert write(tmp_path).startswith("ok 0.")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_symbolic_links_and_missing_directories_are_refused(tmp_path):
    """Who can plant a link must not choose where we write."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real" / f"{PREFIX}{SUFFIX}").symlink_to(tmp_path / "target")
    assert write(tmp_path / "link") == f"error {errno.ENOTDIR} opendir"
    assert write(tmp_path / "absent") == f"error {errno.ENOENT} opendir"
    assert write(tmp_path / "real") == f"error {errno.EEXIST} create"
    assert not (tmp_path / "target").exists()


def test_only_old_canaries_of_this_node_are_swept(tmp_path):
    """A new one may be another process's, everything else is none of our business."""
    long_ago = time.time() - 3600
    names = {
        "old": f"{PREFIX}{'a' * 16}",
        "new": f"{PREFIX}{'b' * 16}",
        "other node": f".leadsman-canary-ffffffffffff-{'a' * 16}",
        "longer": f"{PREFIX}{'a' * 17}",
        "no digits": f"{PREFIX}{'z' * 16}",
    }
    for what, name in names.items():
        (tmp_path / name).touch()
        if what != "new":
            os.utime(tmp_path / name, (long_ago, long_ago))
    assert write(tmp_path).startswith("ok ")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {name for what, name in names.items() if what != "old"}


def test_a_link_by_the_name_of_an_old_canary_is_left_alone(tmp_path):
    """It is none of ours, whatever it is called."""
    link = tmp_path / f"{PREFIX}{'d' * 16}"
    link.symlink_to(tmp_path / "elsewhere")
    os.utime(link, (0, 0), follow_symlinks=False)
    assert write(tmp_path).startswith("ok ")
    assert link.is_symlink()


@pytest.mark.parametrize("call", ["write", "fsync", "pread", "close", "unlink"])
def test_a_failing_call_is_named_and_the_file_removed(tmp_path, monkeypatch, call):
    """NFS tells of a full server at fsync or close."""
    real = getattr(os, call)
    calls = []

    def fails(*arguments, **keywords):
        calls.append(arguments)
        result = real(*arguments, **keywords) if call in {"close", "unlink"} else None
        if len(calls) == 1:
            raise OSError(errno.EDQUOT, "quota")
        return result

    monkeypatch.setattr(os, call, fails)
    assert write(tmp_path) == f"error {errno.EDQUOT} {call.removeprefix('p')}"
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


def test_what_comes_back_different_is_told(tmp_path, monkeypatch):
    """Silent corruption is worse than an error."""
    monkeypatch.setattr(os, "pread", lambda *_: b"x" * mount_worker.CANARY_BYTES)
    assert write(tmp_path) == "differs"
    assert list(tmp_path.iterdir()) == []


class Pool:
    """Workers that answer as told."""

    def __init__(self):
        self.asked = []

    async def run(self, place, job, deadline_s):
        self.asked.append((place, job, deadline_s))
        return Finished(self.result) if isinstance(self.result, str) else self.result


@pytest.fixture
def pool():
    return Pool()


def probe_of(pool, path, node="node-1"):
    return CanaryIoProbe([(KEY, path)], pool, 10.0, node)


@pytest.mark.parametrize(
    ("answers", "outcome", "reason"),
    [
        (["ok 0.01"], Outcome.GOOD, None),
        (["differs"], Outcome.ERROR, Reason.MOUNT_IO_ERROR),
        (["error 5 fsync"], Outcome.ERROR, Reason.MOUNT_IO_ERROR),
        (["error 30 create"], Outcome.ERROR, Reason.READ_ONLY_FILESYSTEM),
        (["error 28 write"], Outcome.IMPAIRED, Reason.CAPACITY_LOW),
        (["error 122 close"], Outcome.IMPAIRED, Reason.CAPACITY_LOW),
        (["error 107 opendir"], Outcome.ERROR, Reason.MOUNT_DISCONNECTED),
        (["error 116 create"], Outcome.ERROR, Reason.STALE_FILE_HANDLE),
        (["error 13 create"], Outcome.NOT_RUN, None),
        (["ok 0.01", "error 13 create"], Outcome.ERROR, Reason.ACCESS_REVOKED),
        (["error 2 opendir"], Outcome.NOT_RUN, None),
        (["error 20 opendir"], Outcome.NOT_RUN, None),
        (["ok soon"], Outcome.NOT_RUN, None),
        ([""], Outcome.NOT_RUN, None),
        ([Overdue(12.0)], Outcome.TIMEOUT, Reason.MOUNT_HUNG),
        ([Refused("no")], Outcome.NOT_RUN, None),
    ],
)
async def test_what_a_canary_says(pool, tmp_path, answers, outcome, reason):
    """A directory that is not there, or was never ours to write to, is a matter of configuration."""
    probe = probe_of(pool, tmp_path)
    for answer in answers:
        pool.result = answer
        seen = await probe.look(str(tmp_path))
    assert (seen.outcome, seen.reason) == (outcome, reason)


async def test_names_differ_by_look_and_node_and_fit_a_process(pool, tmp_path):
    """Two nodes may share a canary volume, and no two looks the same file."""
    pool.result = "ok 0.01"
    for node in ("node-1", "node-1", "n" * 253):
        await probe_of(pool, tmp_path, node).look(str(tmp_path))
    place, job, deadline_s = pool.asked[0]
    assert (len(place), deadline_s) == (11, 10.0)
    _, directory, prefix, suffix = job.split()
    assert bytes.fromhex(directory) == os.fsencode(tmp_path)
    assert job == canary_job(str(tmp_path), bytes.fromhex(prefix).decode(), bytes.fromhex(suffix).decode())
    assert len({asked[1] for asked in pool.asked}) == 3
    assert len({asked[1].split()[2] for asked in pool.asked}) == 2
    assert len(bytes.fromhex(prefix + suffix)) < 64


def test_sources_are_what_the_configuration_names(pool, tmp_path):
    """Always, whatever else there is."""
    probe = probe_of(pool, tmp_path)
    assert list(probe.discover()) == list(probe.choose(frozenset())) == [str(tmp_path)]
    source = probe.sources()[str(tmp_path)]
    assert (source.key, source.place, source.volumes) == (KEY, str(tmp_path), ())
