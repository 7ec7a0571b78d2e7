"""Every way to know, to know half, and not to know ends in a definite, counted outcome."""

import time

import msgspec
import pytest

from leadsman.domain.pod_selectors import Operator, PodSelector, Term
from leadsman.domain.reasons import Reason
from leadsman.domain.requirements import NEAR_ZONE, Near, Requirement
from leadsman.domain.verdicts import FilterAnswer, Rejection, ScoreAnswer
from leadsman.wire.extender_reply import NONE_FAILED, Failed
from leadsman.wire.pod import Pod
from leadsman_gateway.hop.answers import FilterTable, ScoreTable
from leadsman_gateway.volumes import ObjectRef, Resolution

NEED = Requirement("nfs.csi.k8s.io", "nas-a")
MISSING = ObjectRef("PersistentVolumeClaim", "shop", "data")
TABLE = FilterTable(FilterAnswer({"bad": Rejection(Reason.MOUNT_HUNG, "nfs.csi.k8s.io")}))
POD = msgspec.convert(
    {
        "metadata": {"name": "db-0"},
        "spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
    },
    Pod,
)
GPU = msgspec.convert({"metadata": {"name": "train", "labels": {"accelerator": "gpu"}}}, Pod)
OF_GPU = PodSelector(labels=(Term("accelerator", Operator.IN, ("gpu",)),))
PLAIN = msgspec.convert({"metadata": {"name": "web"}, "spec": {"volumes": [{"name": "tmp", "emptyDir": {}}]}}, Pod)


async def test_known_needs_are_decided_by_the_filter(bench):
    """The ruling names the replica and the generation that it rests on."""
    one = bench(answer=TABLE)
    ruling = await one.decider.verdicts(POD, one.deadline())

    assert (ruling.outcome, ruling.instance, ruling.generation) == ("decided", "one", 3)
    assert (ruling.policy, ruling.degraded) == ("p1", ("blind",))
    assert list(ruling.answer.failed(["bad", "good"]).all) == ["bad"]


async def test_missing_objects_are_read_once_and_resolved_again(bench):
    """A claim that was made a moment ago is not yet in memory; skipping it would be wrong."""
    one = bench(Resolution(missing=(MISSING,), unresolved=("data",)), Resolution((NEED,)), answer=TABLE)
    ruling = await one.decider.verdicts(POD, one.deadline())

    assert ruling.outcome == "decided"
    assert one.volumes.fetched == [(MISSING,)]
    assert one.hop.asked == [(NEED,)]


async def test_slow_reading_of_missing_objects_leaves_time_for_the_filter(bench):
    """Half of what is left; what is still unresolved is recorded and has no opinion."""
    half = Resolution((NEED,), missing=(MISSING,), unresolved=("other",))
    one = bench(half, answer=TABLE, fetch_s=30)
    started = time.monotonic()
    ruling = await one.decider.verdicts(POD, one.deadline(0.2))

    assert ruling.outcome == "decided"
    assert ruling.resolution.unresolved == ("other",)
    assert 0.08 < time.monotonic() - started < 0.19
    assert (one.value("fetch_timeouts_total"), one.value("unresolved_volumes_total")) == (1, 1)


async def test_nothing_resolved_is_no_opinion(bench):
    """The filter is not asked about nothing."""
    one = bench(Resolution(unresolved=("data",)), answer=TABLE)
    ruling = await one.decider.verdicts(POD, one.deadline())

    assert (ruling.outcome, ruling.answer.failed(["bad"])) == ("no-opinion", NONE_FAILED)
    assert one.hop.asked == []


@pytest.mark.parametrize("error", [None, RuntimeError("a bug")])
async def test_silent_or_broken_hop_is_answered_by_the_mode(bench, error):
    """Fail-open passes every node, fail-closed none; a bug is counted and never a 5xx."""
    opened = bench(hop_error=error)
    closed = bench(hop_error=error, on_failure="reject")

    ruling = await opened.decider.verdicts(POD, opened.deadline())
    assert (ruling.outcome, ruling.answer.failed(["a"])) == ("failed-open", NONE_FAILED)
    ruling = await closed.decider.verdicts(POD, closed.deadline())
    assert (ruling.outcome, ruling.answer.failed(["a"])) == (
        "failed-closed",
        Failed({"a": "node(s) had no storage verdict (nfs.csi.k8s.io)"}, {}),
    )
    assert ruling.answer.rejection("a") == Rejection(Reason.VERDICT_UNAVAILABLE, "nfs.csi.k8s.io")
    assert closed.decider.closed_answers == 1
    assert closed.value("internal_errors_total", place="hop") == (1 if error else 0)


async def test_pod_of_a_shape_that_breaks_the_resolver_is_no_opinion(bench):
    """Unknown shapes never keep a pod out."""
    one = bench(resolve_error=KeyError("volumes"), answer=TABLE)
    ruling = await one.decider.verdicts(POD, one.deadline())

    assert (ruling.outcome, ruling.resolution.unresolved) == ("no-opinion", ("data",))
    assert one.value("internal_errors_total", place="resolve") == 1


@pytest.mark.parametrize("ask", ["verdicts", "scores"])
async def test_pod_without_storage_is_asked_about_only_if_a_rule_selects_it(bench, ask):
    """Rules that select other pods leave it on the fast path."""
    for pod, outcome in ((GPU, "decided"), (PLAIN, "fast-path")):
        one = bench(Resolution(), answer=TABLE, selectors=(OF_GPU,))
        assert (await getattr(one.decider, ask)(pod, one.deadline())).outcome == outcome
        assert len(one.hop.asked) == (outcome == "decided")


async def test_pod_that_only_a_rule_touches_gets_the_configured_answer_without_a_filter(bench):
    """The rejection names the policy, because there is no driver to name."""
    lost = bench(Resolution(), selectors=(OF_GPU,), on_failure="reject")
    ruling = await lost.decider.verdicts(GPU, lost.deadline())

    assert ruling.outcome == "failed-closed"
    assert ruling.answer.failed(["a"]).unresolvable == {"a": "node(s) had no storage verdict (policy)"}


async def test_shadow_mode_also_holds_while_the_filter_is_silent(bench):
    """It rejects nothing; what would have been is recorded, and there is nobody to wake later."""
    one = bench(answer=FilterTable(FilterAnswer({}, dry_run=True)), on_failure="reject")
    await one.decider.verdicts(POD, one.deadline())
    one.hop.answer = None
    ruling = await one.decider.verdicts(POD, one.deadline())

    assert (ruling.outcome, ruling.answer.failed(["a"])) == ("failed-closed", NONE_FAILED)
    assert ruling.answer.shadow(["a"]) == {"a": Rejection(Reason.VERDICT_UNAVAILABLE, "nfs.csi.k8s.io")}
    assert one.decider.closed_answers == 0


@pytest.mark.parametrize(("annotations", "outcome"), [({NEAR_ZONE: "a"}, "decided"), ({NEAR_ZONE: ""}, "fast-path")])
async def test_pod_that_says_where_its_data_is_gets_scores_without_storage(bench, annotations, outcome):
    """Nearness is a matter of scores alone: no filter is asked."""
    place = Near(("a",))
    one = bench(Resolution(near=place), answer=ScoreTable(ScoreAnswer(("a",), b"\x09", 5)))
    pod = msgspec.convert({"metadata": {"name": "web", "annotations": annotations}}, Pod)

    assert (await one.decider.verdicts(pod, one.deadline())).outcome == "fast-path"
    assert (await one.decider.scores(pod, one.deadline())).outcome == outcome
    assert one.hop.near == [place] * (outcome == "decided")


async def test_scores_that_cannot_be_had_are_left_to_kube_scheduler(bench):
    """Also in fail-closed mode: scores never keep a pod out."""
    scored = bench(answer=ScoreTable(ScoreAnswer(("a",), b"\x09", 5)))
    lost = bench(on_failure="reject")

    assert (await scored.decider.scores(POD, scored.deadline())).answer.best(["a"], 1) == {"a": 9}
    ruling = await lost.decider.scores(POD, lost.deadline())
    assert (ruling.outcome, ruling.answer) == ("failed-open", None)
