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
DRIVERS = ["nfs", "smb"]
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
        self.open: set[str] = set()
        self.below_since: dict[str, float] = {}
        self.told: list[tuple[str, bool]] = []
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
        for driver in DRIVERS:
            weak, total = self.recount(driver)
            if total >= policy.min_nodes and weak / total > policy.share:
                self.below_since.pop(driver, None)
                if driver not in self.open:
                    self.open.add(driver)
                    self.told.append((driver, True))
            elif driver in self.open:
                since = self.below_since.setdefault(driver, now)
                if tick and now - since >= 10:
                    self.open.remove(driver)
                    del self.below_since[driver]
                    self.told.append((driver, False))

    def states(self, driver: str) -> dict[str, list[Health]]:
        """By node, what is said of `driver`, although it may not count."""
        known = {node: self.index._reporters.node(node) for node in NODES}
        return {
            node: [health for key, health in one.in_force.items() if key.driver == driver]
            for node, one in known.items()
            if one is not None
        }

    def recount(self, driver: str) -> tuple[int, int]:
        policy = self.index.policy.of(driver)
        having = [
            [health for health in states if health.state is not State.NOT_APPLICABLE]
            for states in self.states(driver).values()
        ]
        having = [states for states in having if states]
        if self.index.blind:
            return (len(having) if policy.stale is Treatment.REJECT else 0), len(having)
        return sum(any(self.weak(policy, health) for health in states) for states in having), len(having)

    def weak(self, policy: DriverPolicy, health: Health) -> bool:
        if health.state is State.UNHEALTHY:
            return health.evidence is Evidence.CONTROL_PLANE
        if health.state is not State.UNKNOWN:
            return False
        return (policy.stale if health.reason is Reason.STALE else policy.unknown) is Treatment.REJECT

    def rejects(self, driver: str, health: Health) -> bool:
        if health.state in (State.HEALTHY, State.DEGRADED):
            return False
        weak = self.weak(self.index.policy.of(driver), health)
        if health.state is State.UNKNOWN and not weak:
            return False
        return not (weak and driver in self.open)

    def rejected(self, key: StorageKey) -> set[str]:
        """Nodes that a pod with `key` alone is kept off; `other` is one that was never heard of."""
        found = set()
        for node in [*NODES, "other"]:
            states: Mapping[StorageKey, Health] = self.index.in_force(node)
            listed = [states[level] for level in (key, StorageKey(key.driver)) if level in states]
            if any(self.rejects(key.driver, health) for health in listed or [self.index.unlisted]):
                found.add(node)
        return found

    @invariant()
    def counts_equal_a_recount(self) -> None:
        for driver in DRIVERS:
            assert self.recount(driver) == self.index.breaker_counts(driver)

    @invariant()
    def breakers_are_as_the_rules_have_them(self) -> None:
        assert self.open == self.index.open_breakers
        events = [(event.driver, event.opened) for event in self.index.take_breaker_events()]
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
