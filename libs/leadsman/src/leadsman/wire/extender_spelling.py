"""Victims structs of a preempt call written with keys in any case, brought back to kube-scheduler's spelling."""

from typing import Any

import msgspec

_victims_by_node = msgspec.json.Decoder(dict[str, dict[str, msgspec.Raw] | None] | None)
_meta_pods = msgspec.json.Decoder(list[dict[str, msgspec.Raw] | None] | None)


def respell_victims(raw: msgspec.Raw, *, meta: bool) -> bytes:
    """The victims map in `raw` with PascalCase keys, everything else as it was; unknown keys are dropped.

    With `meta` the pods are `{UID}` structs; else they are whole Pods, whose own keys keep Kubernetes' spelling.

    Raises:
        msgspec.ValidationError: not a map of node to victims.
    """
    nodes = _victims_by_node.decode(raw)
    if nodes is None:
        return b"null"
    return msgspec.json.encode(
        {node: None if victims is None else _respell(victims, meta=meta) for node, victims in nodes.items()}
    )


def _respell(victims: dict[str, msgspec.Raw], *, meta: bool) -> dict[str, Any]:
    folded = {key.casefold(): value for key, value in victims.items()}
    out: dict[str, Any] = {}
    if (violations := folded.get("numpdbviolations")) is not None:
        out["NumPDBViolations"] = violations
    if (pods := folded.get("pods")) is not None:
        out["Pods"] = _respell_pods(pods) if meta else pods
    return out


def _respell_pods(raw: msgspec.Raw) -> list[dict[str, msgspec.Raw] | None] | None:
    pods = _meta_pods.decode(raw)
    return None if pods is None else [None if pod is None else _uid_only(pod) for pod in pods]


def _uid_only(pod: dict[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
    folded = {key.casefold(): value for key, value in pod.items()}
    return {"UID": folded["uid"]} if "uid" in folded else {}
