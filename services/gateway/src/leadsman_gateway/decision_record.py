"""The wire form of a decision. It is made off the critical path, yet while requests wait: nodes are counted in C."""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from itertools import islice

from leadsman.domain.verdicts import Rejection
from leadsman.wire.decision import MAX_BREAKDOWNS, MAX_NODES, Breakdown, DecisionRecord, RejectedNodes
from leadsman_gateway.extender import Decision
from leadsman_gateway.hop.answers import FilterTable, ScoreTable


def to_record(decision: Decision, at: float) -> DecisionRecord:
    """The record of `decision` made at `at` (seconds since 1970); at most MAX_NODES nodes by name."""
    meta, ruling = decision.pod.metadata, decision.ruling
    verdicts = decision.verdicts.answer if decision.verdicts else None
    table = decision.scores.answer if decision.scores else None
    dry_run = ruling.answer is not None and ruling.answer.dry_run
    rejections, shadow = _rejections(decision, verdicts) if verdicts else ([], [])
    scores, breakdown = _scores(decision, table) if table else ({}, {})
    return DecisionRecord(
        at=round(at, 3),
        verb=decision.verb,
        namespace=meta.namespace,
        pod=meta.name,
        uid=meta.uid,
        outcome=ruling.outcome,
        candidates=decision.candidates,
        rejected_total=len(decision.failed),
        rejections=rejections,
        shadow_total=sum(group.total for group in shadow),
        shadow=shadow,
        scores=scores,
        breakdown=breakdown,
        storages=sorted({str(need.key) for need in ruling.resolution.requirements}),
        unresolved=list(ruling.resolution.unresolved),
        duration_ms=round(decision.seconds * 1000, 3),
        mode="shadow" if dry_run else "enforce",
        policy=ruling.policy,
        degraded=list(ruling.degraded),
        generation=ruling.generation,
        instance=ruling.instance,
    )


def _rejections(decision: Decision, table: FilterTable) -> tuple[list[RejectedNodes], list[RejectedNodes]]:
    """What was enforced, and what was not."""
    enforced = _grouped(decision.failed, table.rejection, MAX_NODES) if decision.failed else []
    if not decision.names:
        return enforced, []
    found = table.shadow(decision.names)
    kinds = dict(zip(found, map(id, found.values()), strict=True))  # hashing thousands of rejections would cost more
    return enforced, _grouped(kinds, found.__getitem__, MAX_NODES - min(len(decision.failed), MAX_NODES))


def _grouped(
    failed: Mapping[str, Hashable], rejection: Callable[[str], Rejection | None], room: int
) -> list[RejectedNodes]:
    """Nodes by what they failed for, most first; `failed` maps each to what tells one rejection from another.

    The first `room` nodes are named.
    """
    examples = dict(zip(failed.values(), failed, strict=True))
    names: dict[Hashable, list[str]] = {}
    for node, kind in islice(failed.items(), room):
        names.setdefault(kind, []).append(node)
    groups = []
    for kind, total in Counter(failed.values()).most_common():
        why = rejection(examples[kind])
        if why is not None:
            groups.append(RejectedNodes(why.reason.value, why.subject, total, names.get(kind, [])))
    return groups


def _scores(decision: Decision, table: ScoreTable) -> tuple[dict[str, int], dict[str, Breakdown]]:
    """The best candidates, and how the scores of the very best came about."""
    scores = table.best(decision.names, MAX_NODES)
    apart = {node: table.breakdown(node) for node in islice(scores, MAX_BREAKDOWNS)}
    return scores, {node: breakdown for node, breakdown in apart.items() if breakdown is not None}
