"""Try a policy on the cases of a SchedulingPolicyTest, and say where it does something else than it should."""

from collections.abc import Iterator, Mapping

import msgspec

from leadsman.domain.policy import SchedulingPolicy
from leadsman.domain.verdicts import Rejection
from leadsman.domain.what_if import NodeOutcome, WhatIf
from leadsman_cli.outcome_words import rejection_words, score_words, undecided_words
from leadsman_cli.policy_cases import CaseEntry, Cases, ExpectEntry, RejectionEntry
from leadsman_cli.policy_nodes import reports_of

_ALLOWED = "allowed"
_NOT_SCORED = "none: the pod needs no storage, is near nothing, and no rule that prefers touches it"


class Difference(msgspec.Struct, frozen=True):
    """Something that is not as expected, at a node or (`node` empty) in the case as a whole."""

    node: str
    expected: str
    got: str


class CaseResult(msgspec.Struct, frozen=True):
    """One case of a file; `line` is where it begins there."""

    file: str
    line: int
    name: str
    passed: bool
    differences: list[Difference]


def run_cases(policy: SchedulingPolicy, cases: Cases) -> list[CaseResult]:
    """The results of all of `cases`, in their order."""
    what_if = WhatIf(reports_of(cases.nodes), policy)
    results = []
    for case, line in zip(cases.cases, cases.lines, strict=True):
        differences = list(_differences(what_if, case, cases))
        results.append(CaseResult(cases.source, line, case.name, not differences, differences))
    return results


def _differences(what_if: WhatIf, case: CaseEntry, cases: Cases) -> Iterator[Difference]:
    pod, expect = case.pod, case.expect
    outcomes = what_if.outcomes(pod.profile, pod.requirements, pod.near, unheard=cases.nodes)
    for node, outcome in outcomes.items():
        yield from _of_verdict(what_if, expect, outcome)
        yield from _of_shadow(what_if, expect, outcome)
        score = expect.scores.get(node, outcome.score)
        if score != outcome.score:
            yield Difference(node, f"score {score}", f"score {outcome.score} ({score_words(outcome)})")
    yield from _of_best(expect, outcomes)
    if (expect.scores or expect.best) and not what_if.scored(pod.profile, pod.requirements, pod.near):
        yield Difference("", "scores", _NOT_SCORED)


def _of_verdict(what_if: WhatIf, expect: ExpectEntry, outcome: NodeOutcome) -> Iterator[Difference]:
    node, rejection = outcome.node, outcome.rejection
    wanted = (expect.rejected or {}).get(node)
    if expect.rejected is None and expect.allowed is not None and node not in expect.allowed:
        if rejection is None:
            yield Difference(node, "rejected", _ALLOWED)
    elif not _as_wanted(wanted, rejection):
        expected = f"rejected: {_wanted_words(wanted)}" if wanted else _ALLOWED
        yield Difference(node, expected, _got(what_if, node, rejection, "rejected", _ALLOWED))


def _of_shadow(what_if: WhatIf, expect: ExpectEntry, outcome: NodeOutcome) -> Iterator[Difference]:
    if expect.shadow is None:
        return
    node, wanted, none = outcome.node, expect.shadow.get(outcome.node), "no shadow rejection"
    if not _as_wanted(wanted, outcome.shadow):
        expected = f"shadow: {_wanted_words(wanted)}" if wanted else none
        yield Difference(node, expected, _got(what_if, node, outcome.shadow, "shadow", none))


def _of_best(expect: ExpectEntry, outcomes: Mapping[str, NodeOutcome]) -> Iterator[Difference]:
    if not expect.best:
        return
    passing = {node: outcome.score for node, outcome in outcomes.items() if outcome.rejection is None}
    most = max(passing.values(), default=0)
    best = [node for node, score in passing.items() if score == most]
    if sorted(expect.best) != best:
        got = f"best: {', '.join(best)} (score {most})" if best else "no node passes"
        yield Difference("", f"best: {', '.join(sorted(expect.best))}", got)


def _as_wanted(wanted: RejectionEntry | None, got: Rejection | None) -> bool:
    if wanted is None or got is None:
        return wanted is None and got is None
    return wanted.reason is got.reason and wanted.subject in {"", got.subject}


def _wanted_words(wanted: RejectionEntry) -> str:
    if not wanted.subject:
        return wanted.reason.value
    return rejection_words(Rejection(wanted.reason, wanted.subject))


def _got(what_if: WhatIf, node: str, got: Rejection | None, kind: str, none: str) -> str:
    if got is None:
        return none
    why = undecided_words(what_if, node, got)
    return f"{kind}: {rejection_words(got)}" + (f": {why}" if why else "")
