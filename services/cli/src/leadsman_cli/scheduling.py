"""Play kube-scheduler: read a Pod, ask the extender in its own words, and choose as it would."""

import http.client
import random
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import yaml

from leadsman_cli.errors import CommandError

_TIMEOUT_S = 5.0
"""kube-scheduler's own default for `httpTimeout`."""


class NodeOutcome(msgspec.Struct):
    """What became of one candidate. `reason` is the extender's text, `score` its 0-10 if it was asked."""

    name: str
    fits: bool
    reason: str = ""
    score: int | None = None


class Attempt(msgspec.Struct):
    """One scheduling attempt; `chosen` is None when no node fits. `message` is what kube-scheduler would say.

    `warning` tells what kube-scheduler would swallow: a failed prioritize call only loses the scores.
    """

    pod: str
    nodes: list[NodeOutcome]
    chosen: str | None
    message: str
    warning: str = ""


class _NodeItem(msgspec.Struct):
    metadata: dict[str, Any] = {}


class _NodeList(msgspec.Struct):
    items: list[_NodeItem] | None = None


class _FilterResult(msgspec.Struct, rename="pascal"):
    node_names: list[str] | None = None
    nodes: _NodeList | None = None
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] | None = None
    error: str = ""

    def survivors(self) -> list[str]:
        """Names that pass, with kube-scheduler's fallbacks (facts: extender 1.4): null and no items mean none."""
        if self.node_names is not None:
            return self.node_names
        items = self.nodes.items if self.nodes else None
        return [str(item.metadata.get("name")) for item in items or []]


class _HostPriority(msgspec.Struct, rename="pascal"):
    host: str
    score: int


def read_pod(path: Path) -> dict[str, Any]:
    """The Pod in a YAML or JSON file, completed as the API server would (namespace, uid, resourceVersion).

    Raises:
        CommandError: not readable, not YAML, or not exactly one Pod.
    """
    try:
        documents = [found for found in yaml.safe_load_all(path.read_text(encoding="utf-8")) if found is not None]
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(
            f"cannot read {path}: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}"
        ) from error
    except yaml.YAMLError as error:
        raise CommandError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise CommandError(
            f"{path} must hold exactly one Pod; it holds {len(documents)} documents"
            if len(documents) != 1
            else f"{path} must hold a Pod; it holds a {type(documents[0]).__name__}"
        )
    return _as_api_object(documents[0], path)


def _as_api_object(document: dict[str, Any], path: Path) -> dict[str, Any]:
    kind = document.get("kind")
    if kind != "Pod":
        raise CommandError(f"{path} holds a {kind or 'document without kind'}, not a Pod; give the Pod itself")
    metadata, spec = document.get("metadata") or {}, document.get("spec") or {}
    if not isinstance(metadata, dict) or not isinstance(spec, dict) or not metadata.get("name"):
        raise CommandError(f"{path} is not a Pod: metadata with a name and spec must be there")
    defaults = {"namespace": "default", "uid": str(uuid.uuid4()), "resourceVersion": "1", "creationTimestamp": None}
    return {"metadata": defaults | metadata, "spec": spec, "status": {"phase": "Pending"}}


class Extender:
    """The gateway, spoken to as kube-scheduler does with `nodeCacheCapable: true`."""

    def __init__(self, port: int) -> None:
        self._port = port

    def filter(self, pod: dict[str, Any], names: list[str]) -> _FilterResult:
        """Ask which of `names` may take `pod`.

        Raises:
            CommandError: for everything that would fail the attempt in kube-scheduler.
        """
        result: _FilterResult = self._call("filter", pod, names, _FilterResult)
        if result.error:
            raise CommandError(f"the gateway answered filter with an error: {result.error}")
        strangers = sorted(set(result.survivors()) - set(names))
        if strangers:
            raise CommandError(
                f"the gateway answered filter with nodes that were not asked about: {', '.join(strangers)}"
            )
        return result

    def prioritize(self, pod: dict[str, Any], names: list[str]) -> dict[str, int]:
        """Scores of `names`, summed over repeated hosts as kube-scheduler does; null means no opinion.

        Raises:
            CommandError: for what makes kube-scheduler drop the scores.
        """
        scores: Counter[str] = Counter()
        for entry in self._call("prioritize", pod, names, list[_HostPriority] | None) or []:
            scores[entry.host] += entry.score
        return dict(scores)

    def _call(self, verb: str, pod: dict[str, Any], names: list[str], shape: Any) -> Any:  # noqa: ANN401 - any wire shape
        body = msgspec.json.encode({"Pod": pod, "Nodes": None, "NodeNames": names}, enc_hook=str)
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_TIMEOUT_S)
        try:
            connection.request("POST", f"/{verb}", body, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            raw = reply.read()
        except (OSError, http.client.HTTPException) as error:
            raise CommandError(f"the gateway on port {self._port} does not answer {verb}: {error!r}") from error
        finally:
            connection.close()
        if reply.status != 200:
            raise CommandError(f"the gateway answered {verb} with HTTP {reply.status}: {_first_line(raw)}")
        try:
            return msgspec.json.decode(raw, type=shape)
        except msgspec.DecodeError as error:
            raise CommandError(f"the gateway's answer to {verb} is not what kube-scheduler reads: {error}") from error


def _first_line(raw: bytes) -> str:
    return raw.decode(errors="replace").strip().splitlines()[0][:300] if raw.strip() else "(empty body)"


def schedule(pod: dict[str, Any], names: list[str], extender: Extender) -> Attempt:
    """One attempt: filter, then prioritize when more than one node is left, then the best score.

    Equal nodes are drawn by lot, as kube-scheduler does.

    Raises:
        CommandError: the attempt fails without a verdict.
    """
    result = extender.filter(pod, names)
    fitting = set(result.survivors())
    reasons = (result.failed_nodes or {}) | (result.failed_and_unresolvable_nodes or {})
    scores, warning = _scores(pod, [name for name in names if name in fitting], extender)
    nodes = [
        NodeOutcome(name, name in fitting, "" if name in fitting else reasons.get(name, ""), scores.get(name))
        for name in names
    ]
    chosen = _choose(nodes)
    metadata = pod["metadata"]
    return Attempt(f"{metadata['namespace']}/{metadata['name']}", nodes, chosen, _message(nodes, chosen), warning)


def _scores(pod: dict[str, Any], fitting: list[str], extender: Extender) -> tuple[dict[str, int], str]:
    if len(fitting) < 2:  # kube-scheduler does not ask either
        return {}, ""
    try:
        return extender.prioritize(pod, fitting), ""
    except CommandError as error:
        return {}, f"{error}; kube-scheduler goes on without scores"


def _choose(nodes: list[NodeOutcome]) -> str | None:
    fitting = [node for node in nodes if node.fits]
    if not fitting:
        return None
    best = max(node.score or 0 for node in fitting)
    return random.choice([node.name for node in fitting if (node.score or 0) == best])  # noqa: S311 - a draw between equals


def _message(nodes: list[NodeOutcome], chosen: str | None) -> str:
    if chosen is not None:
        return f"Successfully assigned to {chosen}"
    counts = Counter(node.reason or "node(s) had no reason given" for node in nodes)
    reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return f"0/{len(nodes)} nodes are available: {reasons}."
