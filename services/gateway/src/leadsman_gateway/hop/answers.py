"""Answers of filter and scorer, prepared once per generation so that a request is a few dictionary look-ups."""

from collections.abc import Iterable, Mapping, Sequence

from leadsman.domain.reasons import Reason
from leadsman.domain.verdicts import FilterAnswer, Rejection, ScoreAnswer
from leadsman.wire.extender_reply import encode_score


class FilterTable:
    """A filter's answer with the reply text of every rejected node at hand."""

    __slots__ = ("_answer", "_otherwise", "_texts")

    def __init__(self, answer: FilterAnswer, texts: Mapping[str, str] | None = None) -> None:
        self._answer = answer
        self._texts = texts or {node: rejection.text for node, rejection in answer.rejected.items()}
        self._otherwise = answer.otherwise.text if answer.otherwise else None

    @property
    def size(self) -> int:
        """Nodes named in the answer."""
        return len(self._texts) + len(self._answer.allowed)

    def with_volumes(self, rejected: Mapping[str, Rejection]) -> "FilterTable":
        """This answer for one pod, whose own volumes are bad on the nodes in `rejected`; the texts are shared."""
        return FilterTable(self._answer._replace(volumes=rejected), self._texts)

    def failed(self, names: Sequence[str]) -> dict[str, str]:
        """Those of `names` that may not take the pod, with the text for kube-scheduler."""
        volumes = self._answer.volumes
        if not volumes or volumes.keys().isdisjoint(names):
            return self._failed(names)
        return {name: volumes[name].text for name in names if name in volumes} | self._failed(names)

    def _failed(self, names: Sequence[str]) -> dict[str, str]:
        texts, otherwise = self._texts, self._otherwise
        if otherwise is not None:
            allowed = self._answer.allowed
            return {name: texts.get(name, otherwise) for name in names if name in texts or name not in allowed}
        if not texts or texts.keys().isdisjoint(names):
            return {}
        return {name: texts[name] for name in names if name in texts}

    def reason(self, node: str) -> Reason:
        """Why `node` failed; ask only about failed ones."""
        rejection = self._answer.verdict(node)
        return rejection.reason if rejection else Reason.UNRECOGNISED


ALL_PASS = FilterTable(FilterAnswer({}))
"""The answer of an extender that has no opinion."""


def none_pass(rejection: Rejection) -> FilterTable:
    """The answer that rejects every node alike."""
    return FilterTable(FilterAnswer({}, otherwise=rejection))


class _Entries(dict[str, bytes]):
    """Encoded entry of a node, made when it is first asked for; names the scorer does not know are not kept."""

    __slots__ = ("_answer",)

    def __init__(self, answer: ScoreAnswer) -> None:
        super().__init__()
        self._answer = answer

    def __missing__(self, node: str) -> bytes:
        score = self._answer.scores.get(node)
        if score is None:
            return encode_score(node, self._answer.default)
        entry = self[node] = encode_score(node, score)
        return entry


class ScoreTable:
    """A scorer's answer with the encoded reply entry of every node at hand."""

    __slots__ = ("_answer", "_entries")

    def __init__(self, answer: ScoreAnswer) -> None:
        self._answer = answer
        self._entries = _Entries(answer)

    @property
    def size(self) -> int:
        """Nodes named in the answer."""
        return len(self._answer.scores)

    def entries(self, names: Iterable[str]) -> list[bytes]:
        """One reply entry for each of `names`, in their order."""
        entries = self._entries
        return [entries[name] for name in names]

    def score(self, node: str) -> int:
        """The score of `node`, 0-10."""
        return self._answer.scores.get(node, self._answer.default)
