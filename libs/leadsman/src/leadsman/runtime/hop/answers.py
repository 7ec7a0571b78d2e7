"""Encoded answers kept per question, so that a request is a few look-ups whatever the size of the cluster."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from leadsman.domain.changes import ChangeCounter
from leadsman.domain.health_index import HealthIndex
from leadsman.domain.requirements import Requirement

Volumes = tuple[Requirement, ...]
"""The volumes that a pod needs and some node refuses, sorted and without repeats."""

RenderVolumes = Callable[[HealthIndex, Volumes], bytes]
"""Makes the encoded fields that bad volumes add to the answer of their pods."""

K = TypeVar("K", bound=Hashable)

MAX_ANSWERS = 1024
"""Answers kept; a cluster has about as many as combinations of backends in one pod, and few bad volumes."""

MAX_BYTES = 32 * 1024 * 1024
"""Encoded answers kept, by size."""

MAX_VOLUME_BYTES = 8 * 1024 * 1024
"""The same for what bad volumes add to them."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An encoded answer. `generation` changes whenever the content does; `checked` is when it was last compared."""

    generation: int
    payload: bytes
    checked: int


class AnswerCache(Generic[K]):
    """Answers by key. The least recently used go first when there are too many or they grow too large.

    `render` makes an answer; `generation` tells for a key when that may have changed, in numbers of `changes`.
    """

    def __init__(
        self,
        changes: ChangeCounter,
        render: Callable[[K], bytes],
        generation: Callable[[K], int],
        *,
        max_answers: int = MAX_ANSWERS,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._changes = changes
        self._render = render
        self._generation = generation
        self._max_answers = max_answers
        self._max_bytes = max_bytes
        self._answers: OrderedDict[K, Answer] = OrderedDict()
        self._bytes = 0
        self._floor = 0

    def __len__(self) -> int:
        return len(self._answers)

    @property
    def size_bytes(self) -> int:
        """Bytes of all answers kept."""
        return self._bytes

    def clear(self) -> None:
        """Forget all answers, because they are made by other rules from now on; no generation of before comes again."""
        self._answers.clear()
        self._bytes = 0
        self._floor = self._changes.next()

    def get(self, key: K) -> Answer:
        """The answer in force now."""
        found = self._answers.get(key)
        if found is None:
            # The number first: making an answer may bring a change in force that is in it already.
            generation, payload = self._number(key), self._render(key)
            return self._keep(key, Answer(generation, payload, self._changes.value))
        self._answers.move_to_end(key)
        if found.checked == self._changes.value:
            return found
        return self._keep(key, self._recheck(key, found))

    def _recheck(self, key: K, found: Answer) -> Answer:
        generation = self._number(key)
        if generation <= found.checked:  # whatever changed since then, this key does not depend on it
            return Answer(found.generation, found.payload, self._changes.value)
        payload = self._render(key)
        # The same content keeps its generation: a change of state that does not change the verdict costs no transfer.
        same = payload == found.payload
        return Answer(found.generation if same else generation, payload, self._changes.value)

    def _number(self, key: K) -> int:
        return max(self._generation(key), self._floor)

    def _keep(self, key: K, answer: Answer) -> Answer:
        old = self._answers.get(key)
        self._bytes += len(answer.payload) - (len(old.payload) if old else 0)
        self._answers[key] = answer
        while len(self._answers) > self._max_answers or (self._bytes > self._max_bytes and len(self._answers) > 1):
            _, dropped = self._answers.popitem(last=False)
            self._bytes -= len(dropped.payload)
        return answer
