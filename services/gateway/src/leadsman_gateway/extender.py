"""The three verbs of kube-scheduler: body in, answer out, and what is to be recorded about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from leadsman.domain.clock import Clock
from leadsman.telemetry.logs import get_logger
from leadsman.wire.extender import Candidates, decode_filter, decode_preempt, decode_prioritize
from leadsman.wire.extender_reply import NO_SCORES, encode_filter_result, encode_preempt_result, join_scores
from leadsman.wire.pod import Pod
from leadsman_gateway.decider import Decider, Ruling
from leadsman_gateway.hop.answers import ALL_PASS, FilterTable, ScoreTable
from leadsman_gateway.metrics import GatewayMetrics

log = get_logger("gateway")

LEAST_WAIT_S = 0.25
"""What is behind the gateway gets at least this time once a body is read and decoded, however long that took.

Its answer usually takes a millisecond. Without this, a slow upload of whole nodes would use up the deadline, and a
healthy filter would not even be asked.
"""


@dataclass(slots=True)
class Decision:
    """One answered call, kept as cheaply as possible until there is time to record it.

    `candidates` is their number, and `names` who they are, where that matters for the record: they were scored, or
    would have been rejected if it were enforced. `failed` is node to reply text, for preempt only those whose victims
    were spared; `seconds` is from arrival to answer.
    """

    verb: str
    pod: Pod
    candidates: int
    verdicts: Ruling[FilterTable] | None = None
    scores: Ruling[ScoreTable] | None = None
    failed: Mapping[str, str] = field(default_factory=dict)
    names: Sequence[str] = ()
    seconds: float = 0.0

    @property
    def ruling(self) -> Ruling[FilterTable] | Ruling[ScoreTable]:
        """How the answer came about."""
        ruling = self.verdicts or self.scores
        if ruling is None:
            raise TypeError("a decision holds verdicts or scores")
        return ruling


class Extender:
    """Answers calls; `deadline_s` bounds waiting for what is behind, counted from a call's arrival; see `_until`."""

    def __init__(self, decider: Decider, *, deadline_s: float, clock: Clock, metrics: GatewayMetrics) -> None:
        self._decider = decider
        self._deadline_s = deadline_s
        self._clock = clock
        self._metrics = metrics
        self._warned_of_nodes = False

    async def filter(self, body: bytes, arrived: float) -> tuple[bytes, Decision]:
        """Which candidates may take the pod.

        Raises:
            BodyError: the body is not a filter call.
        """
        call = decode_filter(body)
        self._note_form(call.candidates)
        ruling = await self._decider.verdicts(call.pod, self._until(arrived))
        names = call.candidates.all_names()
        failed = _table(ruling).failed(names)
        reply = encode_filter_result(call.candidates, failed)
        return reply, _decision("filter", call.pod, names, ruling, failed.all)

    async def prioritize(self, body: bytes, arrived: float) -> tuple[bytes, Decision]:
        """How well each candidate suits the pod.

        Raises:
            BodyError: the body is not a prioritize call.
        """
        call = decode_prioritize(body)
        ruling = await self._decider.scores(call.pod, self._until(arrived))
        names = call.candidates.all_names()
        table = ruling.answer
        reply = NO_SCORES if table is None or table.dry_run else join_scores(table.entries(names))
        return reply, Decision("prioritize", call.pod, len(names), scores=ruling, names=names if table else ())

    async def preempt(self, body: bytes, arrived: float) -> tuple[bytes, Decision]:
        """The proposed victims, without those on nodes that filter would still reject: their end would be for nothing.

        Raises:
            BodyError: the body is not a preempt call.
        """
        call = decode_preempt(body)
        ruling = await self._decider.verdicts(call.pod, self._until(arrived))
        names = list(call.victims)
        failed = _table(ruling).failed(names).unresolvable
        kept = {node: victims for node, victims in call.victims.items() if node not in failed}
        return encode_preempt_result(kept), _decision("preempt", call.pod, names, ruling, failed)

    def _until(self, arrived: float) -> float:
        """When to stop waiting, by the monotonic clock: the deadline, but never before the least wait from now."""
        least = min(LEAST_WAIT_S, self._deadline_s)
        return max(arrived + self._deadline_s, self._clock.monotonic() + least)

    def _note_form(self, candidates: Candidates) -> None:
        if not candidates.items or candidates.names is not None:
            return
        self._metrics.node_mode.inc()
        if not self._warned_of_nodes:
            self._warned_of_nodes = True
            log.warning(
                "kube-scheduler sends whole nodes: this works, but it costs both sides time and makes in-tree resource "
                "scores wrong (kubernetes/kubernetes#141781); set nodeCacheCapable: true for this extender",
                nodes=len(candidates.items),
            )


def _decision(
    verb: str, pod: Pod, names: Sequence[str], ruling: Ruling[FilterTable], failed: Mapping[str, str]
) -> Decision:
    shadowed = names if _table(ruling).casts_shadow else ()
    return Decision(verb, pod, len(names), verdicts=ruling, failed=failed, names=shadowed)


def _table(ruling: Ruling[FilterTable]) -> FilterTable:
    return ALL_PASS if ruling.answer is None else ruling.answer
