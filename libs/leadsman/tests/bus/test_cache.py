from hypothesis import given
from hypothesis import strategies as st

from leadsman.bus.cache import MAX_SIDECARS, ReportCache
from leadsman.domain.report import NodeReport, Sequence


def report(node: str, epoch: int, seq: int, boot_id: str = "", scope: str = "") -> NodeReport:
    return NodeReport(node, Sequence(epoch, seq), 10.0, (), boot_id=boot_id, scope=scope)


ARRIVALS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=30
)


@given(ARRIVALS, st.randoms())
def test_the_result_of_a_merge_does_not_depend_on_the_order(arrivals, random):
    """Live messages and snapshot rows may mix in any order and repeat: the highest (epoch, seq) of each node wins."""
    shuffled = arrivals + random.sample(arrivals, k=len(arrivals) // 2)
    random.shuffle(shuffled)
    results = []
    for order in (arrivals, shuffled):
        cache = ReportCache(max_nodes=10)
        for node, epoch, seq in order:
            cache.merge(report(node, epoch, seq), current_at=0.0)
        results.append({node: known.sequence for node, known in cache.reports.items()})
    expected = {node: max((e, s) for n, e, s in arrivals if n == node) for node, _, _ in arrivals}
    assert results == [expected, expected]


@given(ARRIVALS)
def test_a_merge_reports_exactly_the_steps_forward(arrivals):
    """Only a strictly higher (epoch, seq) counts as news, so nothing ever goes back."""
    cache, best = ReportCache(max_nodes=10), {}
    for node, epoch, seq in arrivals:
        news = cache.merge(report(node, epoch, seq), current_at=0.0)
        assert news == ((epoch, seq) > best.get(node, (-1, -1)))
        best[node] = max(best.get(node, (-1, -1)), (epoch, seq))


def test_a_restarted_collector_wins_over_its_earlier_life():
    """The epoch counts before the sequence, which starts again at one."""
    cache = ReportCache(max_nodes=10)
    assert cache.merge(report("a", 1, 500), current_at=0.0)
    assert cache.merge(report("a", 2, 1), current_at=1.0)
    assert not cache.merge(report("a", 1, 501), current_at=2.0)


def test_a_newer_report_never_makes_a_node_look_older():
    """A row read after an outage has the outage in its server age; the node was heard before it, so that age stands."""
    cache = ReportCache(max_nodes=10)
    cache.merge(report("a", 1, 1), current_at=100.0)
    cache.merge(report("a", 1, 2), current_at=-500.0)
    assert cache.ages(link_now=103.0) == {"a": 3.0}


def test_silent_nodes_expire_and_may_come_back():
    """Expiry is by link time, per node, and forgets the sequence too."""
    cache = ReportCache(max_nodes=10)
    cache.merge(report("old", 1, 9), current_at=0.0)
    cache.merge(report("new", 1, 9), current_at=50.0)
    assert cache.expire(link_now=100.0, after_s=100.0) == ["old"]
    assert set(cache.reports) == {"new"}
    assert cache.merge(report("old", 1, 1), current_at=101.0)


def test_a_full_cache_still_takes_known_nodes():
    """Invented nodes cannot push real ones out or grow memory without end."""
    cache = ReportCache(max_nodes=1)
    cache.merge(report("a", 1, 1), current_at=0.0)
    assert cache.full_for("b")
    assert not cache.full_for("a")


def test_an_agent_and_sidecars_of_a_node_do_not_touch_each_other():
    """Each has its own sequence, its own age and its own end; together they are one node."""
    cache = ReportCache(max_nodes=10)
    assert cache.merge(report("a", 5, 9), current_at=0.0)
    assert cache.merge(report("a", 1, 1, scope="nfs"), current_at=40.0)
    assert cache.merge(report("a", 1, 1, scope="smb"), current_at=60.0)
    assert not cache.merge(report("a", 1, 1, scope="smb"), current_at=70.0)
    assert cache.ages(link_now=100.0) == {"a": 100.0, "a/nfs": 60.0, "a/smb": 40.0}
    assert (cache.nodes, cache.sidecars) == (1, 2)
    assert cache.reporters("a") == ("a", "a/nfs", "a/smb")

    assert cache.expire(link_now=100.0, after_s=60.0) == ["a", "a/nfs"]
    assert (cache.nodes, cache.reporters("a")) == (1, ("a/smb",))
    assert cache.forget("a/smb")
    assert not cache.forget("a/smb")
    assert (cache.nodes, cache.reporters("a"), dict(cache.reports)) == (0, (), {})


def test_a_sidecar_whose_clock_went_back_is_believed_by_itself():
    """The agent's boot id is no reason to doubt it, nor is the agent's own sequence."""
    cache = ReportCache(max_nodes=10)
    cache.merge(report("a", 9, 5, "old"), current_at=0.0)
    cache.merge(report("a", 9, 5, "old", scope="nfs"), current_at=0.0)
    assert cache.step_back(report("a", 1, 1, "new", scope="nfs"), link_now=1.0)
    assert cache.reports["a"].sequence == Sequence(9, 5)


def test_a_node_cannot_fill_memory_with_sidecars():
    """A new one beyond the bound is refused; known ones and the agent are still heard."""
    cache = ReportCache(max_nodes=1)
    cache.merge(report("a", 1, 1), current_at=0.0)
    for number in range(MAX_SIDECARS):
        assert not cache.crowded_for(report("a", 1, 1, scope=f"d{number}"))
        cache.merge(report("a", 1, 1, scope=f"d{number}"), current_at=0.0)
    assert cache.crowded_for(report("a", 1, 1, scope="one-more"))
    assert not cache.crowded_for(report("a", 1, 2, scope="d0"))
    assert not cache.crowded_for(report("a", 1, 1))
    assert not cache.full_for("a")


def test_a_rebooted_node_whose_clock_went_back_is_believed_live_at_once():
    """A machine runs one boot at a time; the merge, which stored rows go through, keeps to the numbers."""
    cache = ReportCache(max_nodes=10)
    cache.merge(report("a", 9, 5, "old-boot"), current_at=0.0)
    rebooted = report("a", 1, 1, "new-boot")
    assert not cache.merge(rebooted, current_at=1.0)
    assert cache.step_back(rebooted, link_now=1.0)
    assert cache.reports["a"] is rebooted
    assert cache.merge(report("a", 1, 2, "new-boot"), current_at=2.0)


def test_a_late_message_of_the_same_boot_is_not_believed():
    """An earlier collector of this boot, or one whose state file is lost, says nothing about another life."""
    cache = ReportCache(max_nodes=10)
    cache.merge(report("a", 9, 5, "boot"), current_at=0.0)
    for seq in range(1, 9):
        assert not cache.step_back(report("a", 1, seq, "boot"), link_now=seq)
    assert not cache.step_back(report("a", 9, 4, "other"), link_now=100.0)
    assert not cache.step_back(report("b", 1, 1, "other"), link_now=100.0)


def test_a_lower_epoch_wins_once_the_known_one_has_been_silent_for_three_intervals():
    """Two reports in order are needed: one alone may be a late message."""
    cache = ReportCache(max_nodes=10)
    cache.merge(report("a", 9, 5), current_at=0.0)
    assert not cache.step_back(report("a", 2, 7), link_now=31.0)
    assert not cache.step_back(report("a", 1, 9), link_now=32.0)
    assert not cache.step_back(report("a", 1, 9), link_now=33.0)
    assert not cache.step_back(report("a", 1, 8), link_now=34.0)
    assert cache.step_back(report("a", 1, 9), link_now=35.0)
    assert cache.ages(link_now=40.0) == {"a": 5.0}


def test_a_sign_of_life_of_the_known_epoch_starts_the_wait_again():
    """As long as the known life reports, nothing of a lower epoch counts."""
    cache = ReportCache(max_nodes=10)
    for now in range(0, 200, 10):
        assert cache.merge(report("a", 9, now), current_at=now)
        assert not cache.step_back(report("a", 1, now), link_now=now + 5)
