"""Subjects of version 1, and the names of nodes and drivers as one subject token each.

A dot splits tokens in NATS, and names may hold dots. `_` is legal neither in a node name (RFC 1123 subdomain) nor in a
CSI driver name (the same with upper case allowed, at most 63 characters), so `.` is written `_` and back without loss;
upper case stays, since subjects tell it apart.

What each may publish, exactly (NATS permissions, for the node `ip-10-0-0-1.internal` and the driver `nfs.csi.k8s.io`):

* the node's agent: `leadsman.v1.status.ip-10-0-0-1_internal`
* a sidecar in that driver's pod there: `leadsman.v1.status.ip-10-0-0-1_internal.nfs_csi_k8s_io`

Neither needs to subscribe to more than `leadsman.v1.backends`. Readers subscribe to `leadsman.v1.status.>`. Filters and
scorers also subscribe to `leadsman.v1.policy` and publish the replies; people who simulate may publish requests there.
"""

import re

from leadsman.bus.errors import SubjectError

STATUS = "leadsman.v1.status"
"""Prefix of the stored reports; after it the node, and for a sidecar's report the driver."""

EVERY_STATUS = f"{STATUS}.>"
"""All reports of all nodes."""

WAKE = "leadsman.v1.wake"
"""Filters announce a shrunken rejected set here; not stored."""

BACKENDS = "leadsman.v1.backends"
"""The gateway's list of backends for the collectors; not stored."""

POLICY = "leadsman.v1.policy"
"""A request here is answered by every filter and scorer with the policy that it works by; not stored."""

DECISION = "leadsman.v1.decision"
"""Prefix of the decision records, one token after it: the verb."""

_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NODE = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_DRIVER = re.compile(_NODE.pattern, re.IGNORECASE | re.ASCII)
_VERB = re.compile(r"[a-z][a-z0-9-]*")
_MAX_NODE_NAME = 253
_MAX_DRIVER_NAME = 63


def status_subject(node: str, scope: str = "") -> str:
    """The subject that reports of `node` are published on: by its agent, or by the sidecar of the driver `scope`.

    Raises:
        SubjectError: not a legal Kubernetes node name, or not a legal CSI driver name.
    """
    if len(node) > _MAX_NODE_NAME or not _NODE.fullmatch(node):
        raise SubjectError(
            f"{node[:_MAX_NODE_NAME]!r} is not a node name (lower-case letters, digits, '-' and '.', at most "
            f"{_MAX_NODE_NAME} characters; no '_', '*' or '>'); use the name of the Kubernetes Node object"
        )
    subject = f"{STATUS}.{node.replace('.', '_')}"
    return f"{subject}.{_driver_token(scope)}" if scope else subject


def _driver_token(driver: str) -> str:
    if len(driver) > _MAX_DRIVER_NAME or not _DRIVER.fullmatch(driver):
        raise SubjectError(
            f"{driver[:_MAX_DRIVER_NAME]!r} is not a CSI driver name (letters, digits, '-' and '.', at most "
            f"{_MAX_DRIVER_NAME} characters; no '_', '*' or '>'); use the name that the driver's GetPluginInfo answers"
        )
    return driver.replace(".", "_")


def decision_subject(verb: str) -> str:
    """The subject for decision records of `verb` (`filter`, `prioritize`, `preempt`, ...).

    Raises:
        SubjectError: not a lower-case word.
    """
    if not _VERB.fullmatch(verb):
        raise SubjectError(f"{verb!r} is not a verb; expected a lower-case word such as 'filter'")
    return f"{DECISION}.{verb}"
