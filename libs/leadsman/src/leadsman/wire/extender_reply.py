"""What an extender answers kube-scheduler: PascalCase keys, lists never null, whole nodes echoed byte for byte."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import orjson

from leadsman.wire.extender import Candidates, Victims

NO_SCORES = b"[]"
"""The prioritize answer of an extender without an opinion."""


_NO_ERROR = b',"Error":""}'


@dataclass(frozen=True, slots=True)
class Failed:
    """Nodes that may not take a pod, with the text for kube-scheduler.

    Evicting pods could help on `resolvable` ones; on `unresolvable` ones preemption need not look for victims.
    """

    unresolvable: Mapping[str, str]
    resolvable: Mapping[str, str]

    @property
    def all(self) -> Mapping[str, str]:
        """Both together; no node is in both."""
        return {**self.unresolvable, **self.resolvable} if self.resolvable else self.unresolvable


NONE_FAILED = Failed({}, {})


def encode_filter_result(candidates: Candidates, failed: Failed) -> bytes:
    """The filter answer: all candidates minus `failed`, in the form in which they were sent.

    A call that gave nodes in neither form gets both lists, empty: null would be read as "no node fits".
    """
    neither = candidates.names is None and candidates.items is None
    gone = failed.all
    nodes = b'{"metadata":{},"items":[]}' if neither else _encode_items(candidates, gone)
    names = _encode_names([] if neither else candidates.names, gone)
    resolvable, unresolvable = orjson.dumps(failed.resolvable), orjson.dumps(failed.unresolvable)
    lists = (b'{"Nodes":', nodes, b',"NodeNames":', names)
    reasons = (b',"FailedNodes":', resolvable, b',"FailedAndUnresolvableNodes":', unresolvable)
    return b"".join((*lists, *reasons, _NO_ERROR))


def _encode_names(names: list[str] | None, failed: Mapping[str, str]) -> bytes:
    if names and failed:
        return orjson.dumps([name for name in names if name not in failed])
    return orjson.dumps(names)


def _encode_items(candidates: Candidates, failed: Mapping[str, str]) -> bytes:
    if candidates.items is None or candidates.item_names is None:
        return b"null"
    kept = (
        [raw for raw, name in zip(candidates.items, candidates.item_names, strict=True) if name not in failed]
        if failed
        else candidates.items
    )
    return b"".join((b'{"metadata":{},"items":[', b",".join(kept), b"]}"))


def encode_score(node: str, score: int) -> bytes:
    """One entry of a prioritize answer; `score` is an integer from 0 to 10 (kube-scheduler does not clamp)."""
    return b'{"Host":%s,"Score":%d}' % (orjson.dumps(node), score)


def join_scores(entries: Iterable[bytes]) -> bytes:
    """The prioritize answer made of `encode_score` entries."""
    return b"".join((b"[", b",".join(entries), b"]"))


def encode_preempt_result(victims: Mapping[str, Victims]) -> bytes:
    """The preempt answer, always the meta form; a null in it would crash kube-scheduler, so there is none."""
    return orjson.dumps(
        {
            "NodeNameToMetaVictims": {
                node: {"Pods": [{"UID": uid} for uid in entry.uids], "NumPDBViolations": entry.pdb_violations}
                for node, entry in victims.items()
            }
        }
    )
