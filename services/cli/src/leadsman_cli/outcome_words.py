"""What became of a pod at a node, in the words that all commands use."""

from leadsman.domain.reasons import Reason
from leadsman.domain.verdicts import Rejection
from leadsman.domain.what_if import NodeOutcome, Part, WhatIf

ABOUT_RULES = frozenset({Reason.RULE_NOT_MET, Reason.RULE_UNDECIDED})
"""Reasons whose subject is a rule; that of all others is a driver."""


def rejection_words(rejection: Rejection) -> str:
    """`MountHung (nfs.csi.k8s.io)`, or `RuleNotMet (rule gpu-nodes)`."""
    rule = "rule " if rejection.reason in ABOUT_RULES else ""
    return f"{rejection.reason.value} ({rule}{rejection.subject})"


def undecided_words(what_if: WhatIf, node: str, rejection: Rejection) -> str:
    """Why the rule behind `rejection` cannot be decided on `node`; empty for every other reason."""
    if rejection.reason is not Reason.RULE_UNDECIDED:
        return ""
    return what_if.why_undecided(rejection.subject, node) or "the node has never reported"


def score_words(outcome: NodeOutcome) -> str:
    """How a score came about: `cap 10; cpu 0.40 x 1, memory ? x 1`."""
    parts = ", ".join(part_words(part) for part in outcome.parts)
    return f"cap {outcome.cap}; {parts}" if parts else f"cap {outcome.cap}"


def part_words(part: Part) -> str:
    """A component with its value (`?`: not known) and weight."""
    value = "?" if part.value is None else f"{part.value:.2f}"
    return f"{part.name} {value} x {part.weight:g}"
