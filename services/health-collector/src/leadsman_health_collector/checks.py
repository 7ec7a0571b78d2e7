"""What `/readyz?verbose` tells of the collector."""

from collections.abc import Callable, Sequence

from leadsman.runtime.admin import Check
from leadsman_health_collector.book import HealthBook
from leadsman_health_collector.evidence import PRIMARY
from leadsman_health_collector.observation import Kind
from leadsman_health_collector.probe_set import ProbeSet
from leadsman_health_collector.rounds import Rounds
from leadsman_health_collector.workers import WorkerPool


class Readiness:
    """How far the first looks have come, and in what the collector is degraded."""

    def __init__(self, book: HealthBook, rounds: Sequence[Rounds], probes: ProbeSet) -> None:
        self._book = book
        self._rounds = rounds
        self._probes = probes

    @property
    def discovered(self) -> bool:
        """Whether it is known what there is: until then an empty report would be a false claim.

        The probes that find single faults are not waited for: one of them may never be able to look on this machine.
        """
        return all(self._book.discoveries(rounds.kind) > 0 for rounds in self._rounds if rounds.kind in PRIMARY)

    def checks(
        self,
        *,
        bus: Callable[[], bool],
        state_file: Callable[[], str],
        workers: WorkerPool,
        published: Callable[[], bool],
    ) -> list[Check]:
        """The checks. `bus` tells whether it is connected, `state_file` why it is of no use (empty if it is)."""
        return [
            Check("first-round", lambda: self._first_round(published=published())),
            Check("bus", lambda: (bus(), "connected" if bus() else "no connection to NATS"), required=False),
            Check("discovery", lambda: self._discovery(published=published()), required=False),
            Check("drivers-identified", self._identified, required=False),
            Check(
                "state-file",
                lambda: (not state_file(), state_file() or "kept for the next start"),
                required=False,
            ),
            Check("mount-workers", lambda: (workers.stuck == 0, f"{workers.stuck} stuck"), required=False),
        ]

    def _first_round(self, *, published: bool) -> tuple[bool, str]:
        looked = all(self._book.rounds(rounds.kind) > 0 for rounds in self._rounds)
        if not looked or (self.discovered and not published):
            return False, "probing"
        return True, "every probe has had a round" + ("" if self.discovered else ", but not every one could look")

    def _discovery(self, *, published: bool) -> tuple[bool, str]:
        troubles: dict[str, list[str]] = {}  # one file that cannot be read troubles several probes
        for rounds in self._rounds:
            if rounds.trouble:
                troubles.setdefault(rounds.trouble, []).append(rounds.kind)
        if troubles:
            silent = "" if published else "; nothing is published until every probe could look once"
            return False, "; ".join(f"{', '.join(kinds)}: {words}" for words, kinds in troubles.items()) + silent
        return (True, "every probe knows what to look at") if self.discovered else (False, "not yet done")

    def _identified(self) -> tuple[bool, str]:
        if Kind.PLUGIN in self._probes.kinds and self._book.discoveries(Kind.PLUGIN) == 0:
            return False, "no CSI socket has been looked for with success yet"
        if self._probes.misnamed:
            return False, self._probes.misnamed
        unidentified = self._probes.plugins.unidentified
        if not unidentified:
            return True, "the driver of every CSI socket is known"
        claimed = ", ".join(self._probes.registered) or "none"
        return False, (
            f"never answered, so not reported: {', '.join(unidentified)}; registration sockets claim: {claimed}"
        )
