"""Calls at a steady pace while a policy changes: which of them are slow, lost or wrong, and how long services hang."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from leadsman.testing.pages import page
from leadsman_bench.answers import Answer, Examiner, expected_filter, read_filter
from leadsman_bench.cases import Case
from leadsman_bench.load import LoadError
from leadsman_bench.payloads import Body
from leadsman_bench.pipeline import Service
from leadsman_bench.rule_policies import RulePolicy

PAUSE_S = 0.01
"""Between two calls of one kind."""

_FILTER, _PRIORITIZE = Case("filter", Body(500)), Case("prioritize", Body(500))


@dataclass(slots=True)
class Watched:
    """What was seen meanwhile, by what was called.

    `longest_ms` is the slowest call of `filter` and `prioritize`, and of each service's `/livez` (`filter page`), which
    does nothing, so that its slowest answer is how long the event loop was held up. `failures` has an entry for each
    call that was lost or answered wrong.
    """

    calls: dict[str, int] = field(default_factory=dict)
    longest_ms: dict[str, float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def note(self, what: str, seconds: float, failure: str) -> None:
        """Count one call; `failure` is empty for a right answer."""
        self.calls[what] = self.calls.get(what, 0) + 1
        self.longest_ms[what] = max(self.longest_ms.get(what, 0.0), seconds * 1000)
        if failure:
            self.failures.append(f"{what}: {failure}")


class Watch:
    """Calls the gateway at `port` and asks `services`; right is an answer by any one of the policies given."""

    def __init__(self, examiner: Examiner, port: int, services: Mapping[str, Service]) -> None:
        self._examiner = examiner
        self._port = port
        self._pages = {f"{name} page": service.ports["admin"] for name, service in services.items()}

    @contextmanager
    def watching(self, policies: Sequence[RulePolicy]) -> Iterator[Watched]:
        """Call until the block ends; a call that has begun is waited for."""
        right = [expected_filter(_FILTER.body, policy.rejected) for policy in policies]
        seen, stop = Watched(), threading.Event()
        asks: dict[str, Callable[[], str]] = {
            "filter": lambda: self._filter(right),
            "prioritize": self._prioritize,
            **{name: lambda port=port: _alive(port) for name, port in self._pages.items()},  # type: ignore[misc]
        }
        threads = [threading.Thread(target=_keep_asking, args=(*ask, seen, stop)) for ask in asks.items()]
        for thread in threads:
            thread.start()
        try:
            yield seen
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    def answers_by(self, policy: RulePolicy) -> bool:
        """Whether filter calls are answered by `policy`."""
        return not self._filter([expected_filter(_FILTER.body, policy.rejected)])

    def _filter(self, right: Sequence[Answer]) -> str:
        given = read_filter(self._examiner.ask(self._port, _FILTER))
        return "" if given in right else f"an answer by no policy, {len(given.rejected)} nodes rejected, {given.error}"

    def _prioritize(self) -> str:
        given = len(self._examiner.ask(self._port, _PRIORITIZE))
        return "" if given == _PRIORITIZE.body.count else f"{given} scores"


def _keep_asking(what: str, ask: Callable[[], str], seen: Watched, stop: threading.Event) -> None:
    while not stop.wait(PAUSE_S):
        began = time.monotonic()
        try:
            failure = ask()
        except (LoadError, ValueError) as error:  # no answer, or no JSON
            failure = str(error)
        seen.note(what, time.monotonic() - began, failure)


def _alive(port: int) -> str:
    status, text = page(port, "/livez")
    return "" if status == 200 else text
