"""Events that are the same again, and the objects they become in the API server.

They are core/v1 Events: only those may change their message and carry a count with first and last time, which is what
`kubectl describe node` ("x5 over 10m"), `kubectl get events` and `--sort-by=.lastTimestamp` of every version show; and
those of the kubelet and of node-problem-detector about the same Node are of this kind. (events.k8s.io/v1 forbids any
change but of its series.)
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from leadsman_health_collector.kube.notices import Notice

COMPONENT = "leadsman-health-collector"

NAMESPACE = "default"
"""The only one that the API server takes for an event about an object without a namespace."""

COLLECTION = f"/api/v1/namespaces/{NAMESPACE}/events"

_MAX_NAME = 253


@dataclass(slots=True)
class EventSeries:
    """One Event object: what it says, how often it has been noted, and whether the API server has it."""

    name: str
    notice: Notice
    first_epoch_s: float
    last_epoch_s: float
    last_s: float
    """When it was last noted, monotonic."""
    count: int = 1
    created: bool = False

    def again(self, notice: Notice, epoch_s: float, now: float) -> None:
        """It has been noted once more, perhaps in other words."""
        self.notice = notice
        self.count += 1
        self.last_epoch_s = epoch_s
        self.last_s = now

    def body(self, node: str, uid: str) -> dict[str, Any]:
        """The whole object. Without a UID the node's name stands for it, as in the kubelet's own events."""
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": self.name, "namespace": NAMESPACE},
            "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid or node},
            "type": self.notice.type,
            "reason": self.notice.reason,
            "source": {"component": COMPONENT, "host": node},
            "reportingComponent": COMPONENT,
            "reportingInstance": node,
            "firstTimestamp": timestamp(self.first_epoch_s),
            **self.changes(),
        }

    def changes(self) -> dict[str, Any]:
        """What a repetition changes."""
        return {
            "message": self.notice.message,
            "count": self.count,
            "lastTimestamp": timestamp(self.last_epoch_s),
        }


def event_name(node: str, notice: Notice, first_epoch_s: float) -> str:
    """A name that the same series has at every attempt to create it, and no other series."""
    digest = blake2b(f"{node}|{notice.series!r}|{first_epoch_s:.3f}".encode(), digest_size=8).hexdigest()
    stem = node[: _MAX_NAME - len(digest) - 1].rstrip(".-")  # a label must not end with them
    return f"{stem}.{digest}"


def timestamp(epoch_s: float) -> str:
    """A time as `metav1.Time` has it: RFC 3339, whole seconds."""
    return datetime.fromtimestamp(int(epoch_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
