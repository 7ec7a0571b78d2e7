"""Encoded answers kept per set of needs, so that a request is a few look-ups whatever the size of the cluster."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from leadsman.domain.health_index import HealthIndex
from leadsman.domain.report import StorageKey

Needs = tuple[StorageKey, ...]
"""The (driver, backend) pairs that a pod needs, sorted and without repeats."""

Render = Callable[[HealthIndex, Needs], bytes]
"""Makes the answer to some needs as encoded protobuf fields, without id and generation."""

MAX_ANSWERS = 1024
"""Sets of needs kept; a cluster has about as many as combinations of backends in one pod."""

MAX_BYTES = 32 * 1024 * 1024
"""Encoded answers kept, by size."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An encoded answer. `generation` changes whenever the content does; `checked` is when it was last compared."""

    generation: int
    payload: bytes
    checked: int


class AnswerCache:
    """Least recently used answers go first when there are too many or they grow too large."""

    def __init__(
        self, index: HealthIndex, render: Render, *, max_answers: int = MAX_ANSWERS, max_bytes: int = MAX_BYTES
    ) -> None:
        self._index = index
        self._render = render
        self._max_answers = max_answers
        self._max_bytes = max_bytes
        self._answers: OrderedDict[Needs, Answer] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._answers)

    @property
    def size_bytes(self) -> int:
        """Bytes of all answers kept."""
        return self._bytes

    def get(self, needs: Needs) -> Answer:
        """The answer in force now."""
        found = self._answers.get(needs)
        if found is None:
            return self._keep(needs, Answer(self._index.generation(needs), self._fresh(needs), self._index.changes))
        self._answers.move_to_end(needs)
        if found.checked == self._index.changes:
            return found
        return self._keep(needs, self._recheck(needs, found))

    def _recheck(self, needs: Needs, found: Answer) -> Answer:
        generation = self._index.generation(needs)
        if generation <= found.checked:  # whatever changed since then, these needs do not depend on it
            return Answer(found.generation, found.payload, self._index.changes)
        payload = self._fresh(needs)
        # The same content keeps its generation: a change of state that does not change the verdict costs no transfer.
        same = payload == found.payload
        return Answer(found.generation if same else generation, payload, self._index.changes)

    def _fresh(self, needs: Needs) -> bytes:
        return self._render(self._index, needs)

    def _keep(self, needs: Needs, answer: Answer) -> Answer:
        old = self._answers.get(needs)
        self._bytes += len(answer.payload) - (len(old.payload) if old else 0)
        self._answers[needs] = answer
        while len(self._answers) > self._max_answers or (self._bytes > self._max_bytes and len(self._answers) > 1):
            _, dropped = self._answers.popitem(last=False)
            self._bytes -= len(dropped.payload)
        return answer
