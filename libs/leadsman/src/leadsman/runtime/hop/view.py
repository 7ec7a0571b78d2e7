"""What filter and scorer each make of the cluster and the policy: the part of them that answers questions."""

import asyncio
import time
from collections.abc import Iterator
from typing import Protocol

from leadsman.domain.pod_selectors import SelectorSet
from leadsman.domain.requirements import Question

SLICE_S = 0.002
"""How long evaluating a new policy may hold up the event loop at a time; as long a pause follows, for the requests."""


class View(Protocol):
    """Made anew for every policy, and kept in step with the cluster from its making on."""

    @property
    def selectors(self) -> SelectorSet:
        """Which pods its rules touch; positions are those of `Question.rules`."""
        ...

    def fill(self) -> Iterator[object]:
        """Work out what is not known yet, a little at each step."""
        ...

    def simplified(self, question: Question) -> Question:
        """The question without what makes no difference now, so that as many pods as possible share an answer."""
        ...

    def render(self, question: Question) -> bytes:
        """The answer as encoded protobuf fields, without the header."""
        ...

    def generation(self, question: Question) -> int:
        """A number that grows when the answer may have changed."""
        ...

    def close(self) -> None:
        """Follow the cluster no more."""
        ...


async def fill_in_slices(view: View) -> None:
    """Run `view.fill` to its end without holding up the event loop."""
    began = time.perf_counter()
    for _ in view.fill():
        if time.perf_counter() - began > SLICE_S:
            await asyncio.sleep(SLICE_S)
            began = time.perf_counter()
