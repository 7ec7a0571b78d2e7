"""Subjects of version 1, and node names as one subject token.

A dot splits tokens in NATS, and node names may hold dots; `_` is not legal in a node name (RFC 1123 subdomain), so
`.` is written `_` and back without loss.
"""

import re

from leadsman.bus.errors import SubjectError

STATUS = "leadsman.v1.status"
"""Prefix of the stored reports, one token after it: the node."""

WAKE = "leadsman.v1.wake"
"""Filters announce a shrunken rejected set here; not stored."""

BACKENDS = "leadsman.v1.backends"
"""The gateway's list of backends for the collectors; not stored."""

DECISION = "leadsman.v1.decision"
"""Prefix of the decision records, one token after it: the verb."""

_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NODE = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_VERB = re.compile(r"[a-z][a-z0-9-]*")
_MAX_NODE_NAME = 253


def status_subject(node: str) -> str:
    """The subject that reports of `node` are published on.

    Raises:
        SubjectError: not a legal Kubernetes node name.
    """
    if len(node) > _MAX_NODE_NAME or not _NODE.fullmatch(node):
        raise SubjectError(
            f"{node[:_MAX_NODE_NAME]!r} is not a node name (lower-case letters, digits, '-' and '.', at most "
            f"{_MAX_NODE_NAME} characters; no '_', '*' or '>'); use the name of the Kubernetes Node object"
        )
    return f"{STATUS}.{node.replace('.', '_')}"


def decision_subject(verb: str) -> str:
    """The subject for decision records of `verb` (`filter`, `prioritize`, `preempt`, ...).

    Raises:
        SubjectError: not a lower-case word.
    """
    if not _VERB.fullmatch(verb):
        raise SubjectError(f"{verb!r} is not a verb; expected a lower-case word such as 'filter'")
    return f"{DECISION}.{verb}"
