"""Answers of filter and scorer, prepared once per generation so that a request is a few dictionary look-ups."""

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from typing import NamedTuple, TypeVar

from leadsman.domain.scores import MAX_SCORE
from leadsman.domain.verdicts import UNKNOWN_VALUE, FilterAnswer, Rejection, ScoreAnswer
from leadsman.wire.decision import Breakdown
from leadsman.wire.extender_reply import NONE_FAILED, Failed, encode_score

V = TypeVar("V")


class _Texts(NamedTuple):
    """Reply texts by node, of nodes in no list, and which of the texts evictions could help against."""

    by_node: Mapping[str, str]
    otherwise: str | None
    resolvable: frozenset[str]


def _texts_of(answer: FilterAnswer) -> _Texts:
    kinds = {id(rejection): rejection for rejection in (*answer.rejected.values(), answer.otherwise)}
    return _Texts(
        {node: rejection.text for node, rejection in answer.rejected.items()},
        answer.otherwise.text if answer.otherwise else None,
        frozenset([kind.text for kind in kinds.values() if kind is not None and kind.resolvable]),
    )


class FilterTable:
    """A filter's answer with the reply text of every rejected node at hand."""

    __slots__ = ("_answer", "_texts")

    def __init__(self, answer: FilterAnswer, texts: _Texts | None = None) -> None:
        self._answer = answer
        self._texts = texts or _texts_of(answer)

    @property
    def size(self) -> int:
        """Nodes named in the answer."""
        answers = [self._answer, self._answer.shadow] if self._answer.shadow else [self._answer]
        return sum(len(answer.rejected) + len(answer.allowed) for answer in answers)

    @property
    def dry_run(self) -> bool:
        """Whether nothing of it is enforced."""
        return self._answer.dry_run

    @property
    def casts_shadow(self) -> bool:
        """Whether `shadow` may say anything."""
        return self._answer.dry_run or self._answer.shadow is not None

    def with_volumes(self, rejected: Mapping[str, Rejection]) -> "FilterTable":
        """This answer for one pod, whose own volumes are bad on the nodes in `rejected`; the texts are shared."""
        return FilterTable(self._answer._replace(volumes=rejected), self._texts)

    def failed(self, names: Sequence[str]) -> Failed:
        """Those of `names` that may not take the pod, with the text for kube-scheduler."""
        if self._answer.dry_run:
            return NONE_FAILED
        texts, otherwise, resolvable = self._texts
        failed = _failing(texts, self._answer.allowed, otherwise, names)
        volumes = self._answer.volumes
        if volumes and not volumes.keys().isdisjoint(names):
            bad = [name for name in names if name in volumes]
            failed |= {name: volumes[name].text for name in bad if name not in failed or failed[name] in resolvable}
        if not resolvable:
            return Failed(failed, {})
        helped = {name: text for name, text in failed.items() if text in resolvable}
        return Failed({name: text for name, text in failed.items() if name not in helped}, helped)

    def rejection(self, node: str) -> Rejection | None:
        """Why `node` may not take the pod; None if it may, enforced or not."""
        return self._answer.verdict(node)

    def shadow(self, names: Sequence[str]) -> dict[str, Rejection]:
        """Those of `names` that are let pass only because it is not enforced what rejects them."""
        answer, shadow = self._answer, self._answer.shadow
        found = _failing(shadow.rejected, shadow.allowed, shadow.otherwise, names) if shadow else {}
        if not answer.dry_run:
            return {name: why for name, why in found.items() if name not in answer.volumes}
        found |= _failing(answer.rejected, answer.allowed, answer.otherwise, names)
        return found | {name: why for name in names if name in answer.volumes and (why := answer.verdict(name))}


def _failing(
    rejected: Mapping[str, V], allowed: Container[str], otherwise: V | None, names: Sequence[str]
) -> dict[str, V]:
    """Those of `names` that fail, with what there is about each; without `otherwise`, those in neither list pass."""
    if otherwise is not None:
        return {name: rejected.get(name, otherwise) for name in names if name in rejected or name not in allowed}
    if not rejected or rejected.keys().isdisjoint(names):
        return {}
    return {name: rejected[name] for name in names if name in rejected}


ALL_PASS = FilterTable(FilterAnswer({}))
"""The answer of an extender that has no opinion."""


def none_pass(rejection: Rejection, *, dry_run: bool = False) -> FilterTable:
    """The answer that rejects every node alike."""
    return FilterTable(FilterAnswer({}, otherwise=rejection, dry_run=dry_run))


class ScoreTable:
    """A scorer's answer with the encoded reply entry of every node at hand."""

    __slots__ = ("_answer", "_apart", "_entries", "_positions", "_scores", "_top")

    def __init__(self, answer: ScoreAnswer) -> None:
        self._answer = answer
        self._scores = dict(zip(answer.nodes, answer.scores, strict=True))
        self._entries = _Entries(self._scores, answer.default)
        self._positions: dict[str, int] = {}
        self._apart: dict[str, Breakdown] = {}
        self._top = 0

    @property
    def size(self) -> int:
        """Nodes named in the answer."""
        return len(self._scores)

    @property
    def dry_run(self) -> bool:
        """Whether the scores are only to be recorded."""
        return self._answer.dry_run

    def entries(self, names: Iterable[str]) -> list[bytes]:
        """One reply entry for each of `names`, in their order."""
        entries = self._entries
        return [entries[name] for name in names]

    def best(self, names: Sequence[str], count: int) -> dict[str, int]:
        """The `count` best of `names` with their scores, best first, equal ones in the order of `names`."""
        if not self._top:
            self._top = max(self._answer.default, *self._answer.scores, 1)
        scores = self._scores_of(names[: 4 * count])
        if len(scores) < len(names) and scores.count(self._top) < count:  # else there are no better ones
            scores = self._scores_of(names)
        found: dict[str, int] = {}
        for score in range(self._top, -1, -1):
            at = scores.find(score)
            while at >= 0 and len(found) < count:
                found[names[at]] = score
                at = scores.find(score, at + 1)
        return found

    def _scores_of(self, names: Sequence[str]) -> bytes:
        return bytes(map(self._scores.get, names, repeat(self._answer.default)))  # thousands of names at the pace of C

    def breakdown(self, node: str) -> Breakdown | None:
        """How the score of `node` came about; None for one that the scorer has never heard of."""
        if node not in self._scores:
            return None
        if node not in self._apart:
            self._apart[node] = self._take_apart(node)
        return self._apart[node]

    def _take_apart(self, node: str) -> Breakdown:
        answer = self._answer
        if not self._positions:  # made when it is first needed, for no request does
            self._positions = dict(zip(answer.nodes, range(len(answer.nodes)), strict=True))
        at = self._positions[node]
        components = {column.name: (_share(column.values[at]), column.weight) for column in answer.columns}
        return Breakdown(answer.scores[at], answer.caps[at] if answer.caps else MAX_SCORE, components)


def _share(hundredths: int) -> float | None:
    return None if hundredths == UNKNOWN_VALUE else hundredths / 100


_encoded = lru_cache(maxsize=65_536)(encode_score)
"""Scores of some nodes change every second, and most stay: encoding all again would hold up a request for 4 ms."""


class _Entries(dict[str, bytes]):
    """Encoded entry of a node, made when it is first asked for; names the scorer does not know are not kept."""

    __slots__ = ("_default", "_scores")

    def __init__(self, scores: Mapping[str, int], default: int) -> None:
        super().__init__()
        self._scores = scores
        self._default = default

    def __missing__(self, node: str) -> bytes:
        score = self._scores.get(node)
        if score is None:
            return _encoded(node, self._default)
        entry = self[node] = _encoded(node, score)
        return entry
