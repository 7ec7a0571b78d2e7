"""Request bodies: ExtenderArgs with names or full nodes, for the pod with and without storage."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from leadsman_bench.node_objects import Json, node_name, node_object
from leadsman_bench.pod_objects import pod_object


@dataclass(frozen=True, slots=True)
class Body:
    """One request body: `count` candidates as names or as full nodes, for a pod that needs storage or not."""

    count: int
    full: bool = False
    storage: bool = True

    @property
    def file_name(self) -> str:
        """The name of its file in the payload folder."""
        return f"{'full' if self.full else 'names'}-{self.count}-{'storage' if self.storage else 'plain'}.json"

    @property
    def candidates(self) -> str:
        """What is sent, in words."""
        return f"{self.count:,} {'full nodes' if self.full else 'names'}"


BODIES = (
    *(Body(count, storage=storage) for count in (100, 500, 1000, 5000) for storage in (True, False)),
    Body(500, full=True),
    Body(500, full=True, storage=False),
    Body(5000, full=True),
)


def write_bodies(folder: Path) -> None:
    """Write every body of BODIES into `folder`."""
    nodes = [node_object(number) for number in range(max(body.count for body in BODIES if body.full))]
    for body in BODIES:
        (folder / body.file_name).write_bytes(_encode(extender_args(body, nodes)))


def extender_args(body: Body, nodes: Iterable[Json]) -> Json:
    """The arguments as kube-scheduler sends them; the part that is not used is null."""
    items = list(nodes)[: body.count] if body.full else []
    return {
        "Pod": pod_object(storage=body.storage),
        "Nodes": {"metadata": {}, "items": items} if body.full else None,
        "NodeNames": None if body.full else [node_name(number) for number in range(body.count)],
    }


def _encode(value: Json) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
