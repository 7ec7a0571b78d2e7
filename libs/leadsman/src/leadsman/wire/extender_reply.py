"""What an extender answers kube-scheduler: PascalCase keys, lists never null, whole nodes echoed byte for byte."""

from collections.abc import Iterable, Mapping

import orjson

from leadsman.wire.extender import Candidates, Victims

NO_SCORES = b"[]"
"""The prioritize answer of an extender without an opinion."""

_REJECTED = b',"FailedNodes":{},"FailedAndUnresolvableNodes":'
_NO_ERROR = b',"Error":""}'


def encode_filter_result(candidates: Candidates, failed: Mapping[str, str]) -> bytes:
    """The filter answer: all candidates minus `failed` (node to text), in the form in which they were sent.

    Rejected nodes stand under FailedAndUnresolvableNodes, because evicting pods does not heal storage. A call that
    gave nodes in neither form gets both lists, empty: null would be read as "no node fits".
    """
    neither = candidates.names is None and candidates.items is None
    nodes = b'{"metadata":{},"items":[]}' if neither else _encode_items(candidates, failed)
    names = _encode_names([] if neither else candidates.names, failed)
    return b"".join((b'{"Nodes":', nodes, b',"NodeNames":', names, _REJECTED, orjson.dumps(failed), _NO_ERROR))


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
