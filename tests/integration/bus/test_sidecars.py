import asyncio

import pytest

from leadsman.bus.cache import MAX_SIDECARS

pytestmark = pytest.mark.integration

NFS, SMB = "nfs.csi.k8s.io", "Smb.csi.k8s.io"
ALL = {"a.b", f"a.b/{NFS}", f"a.b/{SMB}"}


async def test_an_agent_and_its_sidecars_are_kept_apart_live_and_stored(server, send, stored, replicate, eventually):
    """Each has a subject of its own, so one row each, and none takes the place of another."""
    live = replicate(server.url)
    await eventually(lambda: live.replica.synced)
    await send("a.b", 7)
    await send("a.b", 1, scope=NFS)
    await send("a.b", 2, scope=SMB)
    await send("a.b", 2, scope=NFS)
    await stored(3)
    late = replicate(server.url)
    await eventually(lambda: late.replica.synced)
    for one in (live, late):
        await eventually(lambda one=one: set(one.replica.reports) == ALL)
        await eventually(lambda one=one: one.replica.reports[f"a.b/{NFS}"].sequence.seq == 2)
        assert one.replica.reports["a.b"].sequence.seq == 7
        assert set(one.replica.ages()) == ALL
        assert one.replica.describe() == (True, "1 nodes")
        assert (one.count("leadsman_replica_nodes"), one.count("leadsman_replica_sidecars")) == (1, 2)
        assert not one.listener.went_back
    assert late.count("leadsman_replica_reports_total", path="snapshot") == 3


async def test_each_reporter_ages_and_leaves_by_itself(server, send, replicate, eventually, monkeypatch):
    """A node counts as expired only when the last of its reporters has gone."""
    monkeypatch.setattr("leadsman.bus.replica.EXPIRE_EVERY_S", 0.05)
    forgotten: list[str] = []
    one = replicate(server.url, expire_after_s=0.6, on_forget=forgotten.append)
    await eventually(lambda: one.replica.synced)
    await send("a.b", 1, scope=NFS)
    await send("a.b", 1)
    for seq in range(2, 100):
        await send("a.b", seq)
        await asyncio.sleep(0.02)
        if forgotten:
            break
    assert forgotten == [f"a.b/{NFS}"]
    assert one.replica.age(f"a.b/{NFS}") is None
    assert one.replica.age("a.b") < 0.6
    assert one.count("leadsman_replica_expired_nodes_total") == 0
    await eventually(lambda: forgotten == [f"a.b/{NFS}", "a.b"])
    assert one.count("leadsman_replica_expired_nodes_total") == 1


async def test_a_node_that_the_cluster_no_longer_has_is_forgotten_with_its_sidecars(
    server, send, replicate, eventually
):
    """And whoever listens is told of each."""
    forgotten: list[str] = []
    one = replicate(server.url, on_forget=forgotten.append)
    await eventually(lambda: one.replica.synced)
    await send("a.b", 1, scope=NFS)
    await send("a.b", 1)
    await send("other", 1)
    await eventually(lambda: len(one.replica.reports) == 3)
    one.replica.forget("a.b")
    assert sorted(forgotten) == ["a.b", f"a.b/{NFS}"]
    assert set(one.replica.reports) == {"other"}


async def test_invented_sidecars_cannot_fill_memory(server, send, replicate, eventually):
    """Beyond the bound they are refused and counted; the known ones and the agent are still served."""
    one = replicate(server.url)
    await eventually(lambda: one.replica.synced)
    for number in range(MAX_SIDECARS + 2):
        await send("a.b", 1, scope=f"driver-{number}")
    await send("a.b", 2, scope="driver-0")
    await send("a.b", 1)
    await eventually(lambda: "a.b" in one.replica.reports)
    assert one.dropped("too_many_sidecars") == 2
    assert len(one.replica.reports) == MAX_SIDECARS + 1
    assert one.replica.reports["a.b/driver-0"].sequence.seq == 2
