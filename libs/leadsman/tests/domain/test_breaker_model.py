"""Whatever happens in whatever order, breakers count what a recount finds, and verdicts follow from states and them."""

from collections.abc import Mapping

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from leadsman.domain.health import Health
from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey, StorageStatus
from leadsman.domain.states import Evidence, State
from leadsman.domain.storage_policy import BreakerPolicy, DriverPolicy, StoragePolicy, Treatment
from leadsman.testing.ageing_cluster import AgeingCluster
from leadsman.testing.reports import report, status, storage_key

KEYS = [storage_key(text) for text in ("nfs", "nfs/a", "nfs/b", "smb", "smb/a")]
NODES = ["n1", "n2", "n3", "n4"]
REPORTERS = [(node, scope) for node in NODES for scope in ("", "nfs")]
REASONS = {
    State.UNHEALTHY: [Reason.MOUNT_HUNG, Reason.DRIVER_NOT_RESPONDING],
    State.UNKNOWN: [Reason.DRIVER_STARTING, Reason.ACCESS_REVOKED],
}
STATUSES = st.sampled_from(
    [status(str(key), state, reason) for key in KEYS for state in State for reason in REASONS.get(state, [None])]
)
TREATMENTS = st.sampled_from(list(Treatment))
OF_DRIVER = st.builds(DriverPolicy, TREATMENTS, TREATMENTS, st.sampled_from([3, 5]), st.sampled_from([0, 4]))
POLICIES = st.builds(
    StoragePolicy,
    OF_DRIVER,
    st.dictionaries(st.just("smb"), OF_DRIVER),
    st.just(6),
    st.builds(BreakerPolicy, st.sampled_from([0.25, 0.5, 0.8, 1.0]), st.integers(1, 3)),
)


class BreakersAgainstRecount(RuleBasedStateMachine):
    """Whatever happens in whatever order, breakers count what a recount finds."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = AgeingCluster(StoragePolicy(breaker=BreakerPolicy(0.5, 2)))
        self.index = self.cluster.index
        self.open: set[StorageKey] = set()
        self.below_since: dict[StorageKey, float] = {}
        self.told: list[tuple[StorageKey, bool]] = []
        self.mirror: dict[str, dict[StorageKey, Health]] = {}
        self.rejected_before: dict[StorageKey, set[str]] = {}
        self.answers: dict[tuple[StorageKey, int], object] = {}
        self.lost = False
        self.index.listen(self)

    def refresh(self, node: str) -> None:
        self.mirror[node] = dict(self.index.in_force(node))

    def reset(self) -> None:
        self.mirror = {node: dict(self.index.in_force(node)) for node in NODES}

    @rule(
        reporter=st.sampled_from(REPORTERS), statuses=st.lists(STATUSES, max_size=4), age=st.sampled_from([0, 0, 4, 8])
    )
    def report(self, reporter: tuple[str, str], statuses: list[StorageStatus], age: int) -> None:
        self.cluster.hear(report(reporter[0], *statuses, scope=reporter[1]), age_s=age)
        self.judge()

    @rule(state=STATUSES)
    def everybody_reports(self, state: StorageStatus) -> None:
        for node in NODES:
            self.cluster.hear(report(node, state))
            self.judge()

    @rule(seconds=st.integers(1, 11))
    def time_passes(self, seconds: int) -> None:
        for _ in range(seconds):
            self.cluster.wait(1)
            self.judge(tick=True)

    @rule()
    def bus_is_lost_or_back(self) -> None:
        if self.lost:
            self.cluster.find_bus()
            self.judge(tick=True)
        else:
            self.cluster.lose_bus()
        self.lost = not self.lost

    @rule(reporter=st.sampled_from(REPORTERS))
    def forget(self, reporter: tuple[str, str]) -> None:
        self.cluster.forget(report(reporter[0], scope=reporter[1]).reporter)
        self.judge()

    @rule(policy=POLICIES)
    def adopt(self, policy: StoragePolicy) -> None:
        self.cluster.adopt(policy)
        self.judge()

    def judge(self, *, tick: bool = False) -> None:
        """Move the model's breakers, by a recount and the rules word for word."""
        now, policy = self.cluster.clock.monotonic(), self.index.policy.breaker
        for key in KEYS:
            weak, total = self.recount(key)
            if total >= policy.min_nodes and weak / total > policy.share:
                self.below_since.pop(key, None)
                if key not in self.open:
                    self.open.add(key)
                    self.told.append((key, True))
            elif key in self.open:
                since = self.below_since.setdefault(key, now)
                if tick and now - since >= 10:
                    self.open.remove(key)
                    del self.below_since[key]
                    self.told.append((key, False))

    def states(self, key: StorageKey) -> list[Health]:
        """What the nodes say of `key`, although it may not count."""
        known = [self.index._reporters.node(node) for node in NODES]
        return [one.in_force[key] for one in known if one is not None and key in one.in_force]

    def recount(self, key: StorageKey) -> tuple[int, int]:
        policy = self.index.policy.of(key.driver)
        having = [health for health in self.states(key) if health.state is not State.NOT_APPLICABLE]
        if self.index.blind:
            return (len(having) if policy.stale is Treatment.REJECT else 0), len(having)
        return sum(self.weak(policy, health) for health in having), len(having)

    def weak(self, policy: DriverPolicy, health: Health) -> bool:
        if health.state is State.UNHEALTHY:
            return health.evidence is Evidence.CONTROL_PLANE
        if health.state is not State.UNKNOWN:
            return False
        return (policy.stale if health.reason is Reason.STALE else policy.unknown) is Treatment.REJECT

    def rejects(self, key: StorageKey, health: Health) -> bool:
        if health.state in (State.HEALTHY, State.DEGRADED):
            return False
        weak = self.weak(self.index.policy.of(key.driver), health)
        if health.state is State.UNKNOWN and not weak:
            return False
        return not (weak and {key, StorageKey(key.driver)} & self.open)

    def rejected(self, key: StorageKey) -> set[str]:
        """Nodes that a pod with `key` alone is kept off; `other` is one that was never heard of."""
        found = set()
        for node in [*NODES, "other"]:
            states: Mapping[StorageKey, Health] = self.index.in_force(node)
            listed = {level: states[level] for level in (key, StorageKey(key.driver)) if level in states}
            if any(self.rejects(*one) for one in (listed or {key: self.index.unlisted}).items()):
                found.add(node)
        return found

    @invariant()
    def counts_equal_a_recount(self) -> None:
        for key in KEYS:
            assert self.recount(key) == self.index.breaker_counts(key)

    @invariant()
    def breakers_are_as_the_rules_have_them(self) -> None:
        assert self.open == self.index.open_breakers
        events = [(event.storage, event.opened) for event in self.index.take_breaker_events()]
        assert sorted(self.told) == sorted(events)
        self.told = []

    @invariant()
    def verdicts_follow(self) -> None:
        recovered = self.index.take_recovered()
        for key in KEYS:
            now = self.rejected(key)
            assert now == self.cluster.rejected([*NODES, "other"], str(key)).keys()
            answer = (self.index.generation((key,)), frozenset(now))
            assert self.answers.setdefault((key, answer[0]), answer) == answer
            if self.rejected_before.get(key, set()) - now:
                assert {str(key), key.driver, "other drivers"} & recovered
            self.rejected_before[key] = now

    @invariant()
    def a_listener_is_in_step(self) -> None:
        assert {node: self.index.in_force(node) for node in NODES} == {
            node: self.mirror.get(node, {}) for node in NODES
        }


TestBreakersAgainstRecount = BreakersAgainstRecount.TestCase
TestBreakersAgainstRecount.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
