"""Whatever happens in whatever order, the index equals what reports and ages say from scratch."""

from collections.abc import Iterator, Mapping

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from leadsman.domain.changes import ChangeCounter
from leadsman.domain.health import Health, effective, health
from leadsman.domain.health_index import HealthIndex
from leadsman.domain.reasons import Reason
from leadsman.domain.report import NodeReport, StorageKey, StorageStatus, VolumeKey, VolumeStatus, node_of
from leadsman.domain.states import State, severity
from leadsman.domain.storage_policy import DriverPolicy, StoragePolicy, Treatment
from leadsman.testing.reports import report, status, storage_key, volume

POLICY = StoragePolicy(
    DriverPolicy(stale_after_s=3, hold_unhealthy_s=9),
    {"smb": DriverPolicy(Treatment.REJECT, Treatment.PENALIZE, stale_after_s=5, hold_unhealthy_s=2)},
    bus_frozen_max_age_s=6,
)
KEYS = [storage_key(text) for text in ("nfs", "nfs/a", "nfs/b", "smb", "smb/a")]
VOLUMES = [VolumeKey("nfs", "pv-1"), VolumeKey("nfs", "pv-2"), VolumeKey("smb", "pv-1")]
REPORTERS = [("n1", ""), ("n1", "nfs"), ("n1", "smb"), ("n2", ""), ("n2", "nfs"), ("n3", "")]
STATES = st.sampled_from(list(State))
STATUSES = st.builds(status, st.sampled_from([str(key) for key in KEYS]), STATES)
BAD_VOLUMES = st.builds(volume, st.sampled_from([f"{key.driver}/{key.volume}" for key in VOLUMES]), STATES)

KNOWN_WORST_FIRST = [State.UNHEALTHY, State.NOT_APPLICABLE, State.DEGRADED, State.HEALTHY]


def in_force(index: HealthIndex, key: StorageKey) -> dict[str, Health]:
    return {node: one for state in State for node, one in index.in_state(key, state).items()}


def together(words: list[Health]) -> Health:
    """What several reporters of a node come to, as a list of questions."""
    for state in KNOWN_WORST_FIRST:
        for one in words:
            if one.state is state:
                return one
    return next((one for one in words if one.reason is not Reason.STALE), words[0])


class IndexAgainstRecomputation(RuleBasedStateMachine):
    """Whatever happens in whatever order, the index equals what reports and ages say from scratch."""

    def __init__(self) -> None:
        super().__init__()
        self.index = HealthIndex(POLICY, ChangeCounter())
        self.reports: dict[str, NodeReport] = {}
        self.ages: dict[str, float] = {}
        self.now = 0
        self.frozen_for: int | None = None
        self.generations: dict[StorageKey, int] = {}
        self.history: dict[tuple[StorageKey, int], object] = {}
        self.refused_before: dict[VolumeKey, set[str]] = {}

    @rule(
        reporter=st.sampled_from(REPORTERS),
        statuses=st.lists(STATUSES, max_size=4),
        volumes=st.lists(BAD_VOLUMES, max_size=3),
        age=st.integers(0, 12),
    )
    def report(
        self, reporter: tuple[str, str], statuses: list[StorageStatus], volumes: list[VolumeStatus], age: int
    ) -> None:
        node, scope = reporter
        one = report(node, *statuses, volumes=volumes, scope=scope)
        self.reports[one.reporter] = one
        self.ages[one.reporter] = age
        self.index.apply(one, age, self.now)

    @rule(reporter=st.sampled_from(REPORTERS), age=st.integers(0, 12))
    def same_report_again(self, reporter: tuple[str, str], age: int) -> None:
        name = report(reporter[0], scope=reporter[1]).reporter
        if name in self.reports:
            self.ages[name] = age
            self.index.apply(self.reports[name], age, self.now)

    @rule(seconds=st.integers(1, 4))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds
        if self.frozen_for is None:
            self.ages = {reporter: age + seconds for reporter, age in self.ages.items()}
        else:
            self.frozen_for += seconds
        self.index.tick(self.now, self.ages.get, self.frozen_for)

    @rule()
    def bus_is_lost_or_back(self) -> None:
        self.frozen_for = 0 if self.frozen_for is None else None
        self.index.tick(self.now, self.ages.get, self.frozen_for)

    @rule(reporter=st.sampled_from(REPORTERS))
    def forget(self, reporter: tuple[str, str]) -> None:
        name = report(reporter[0], scope=reporter[1]).reporter
        self.reports.pop(name, None)
        self.ages.pop(name, None)
        self.index.forget(name)

    @property
    def blind(self) -> bool:
        return self.frozen_for is not None and self.frozen_for >= POLICY.bus_frozen_max_age_s

    def words(self, node: str, key: StorageKey) -> Iterator[Health]:
        """What counts now of what each reporter of `node` said of `key`."""
        for name, latest in self.reports.items():
            entries = [one for one in latest.storages if one.key == key]
            if node_of(name) == node and entries:
                worst = max(entries, key=lambda one: severity(one.state))
                last = health(worst.state, worst.reason, worst.evidence)
                yield effective(last, POLICY.of(key.driver), self.ages[name])

    def recomputed(self, key: StorageKey) -> Mapping[str, Health]:
        found = {node: list(self.words(node, key)) for node in {node for node, _ in REPORTERS}}
        return {} if self.blind else {node: together(words) for node, words in found.items() if words}

    def refused(self, key: VolumeKey) -> dict[str, State]:
        """Nodes that must not get the volume, by the rules word for word."""
        policy = POLICY.of(key.driver)
        rejects_unknown = policy.unknown is Treatment.REJECT
        found: dict[str, State] = {}
        for name, latest in self.reports.items():
            age, states = (
                self.ages[name],
                [one.state for one in latest.bad_volumes if one[:2] == (key.driver, key.volume)],
            )
            unknown = State.UNKNOWN in states or State.NOT_APPLICABLE in states
            if State.UNHEALTHY in states and age < policy.stale_after_s + policy.hold_unhealthy_s:
                found[node_of(name)] = State.UNHEALTHY
            elif State.UNHEALTHY not in states and unknown and age < policy.stale_after_s and rejects_unknown:
                found.setdefault(node_of(name), State.UNKNOWN)
        return {} if self.blind else found

    @invariant()
    def equals_recomputation(self) -> None:
        for key in KEYS:
            assert self.recomputed(key) == in_force(self.index, key)

    @invariant()
    def volumes_equal_recomputation(self) -> None:
        for key in VOLUMES:
            assert self.refused(key) == {node: one.state for node, one in self.index.refusing(key).items()}
        if not self.blind:
            assert set(self.index.volumes()) == {key for key in VOLUMES if self.refused(key)}

    @invariant()
    def a_volume_that_fewer_nodes_refuse_is_told(self) -> None:
        recovered = self.index.take_recovered()
        for key in VOLUMES:
            now = self.refused(key).keys()
            if self.refused_before.get(key, set()) - now:
                assert str(key) in recovered
            self.refused_before[key] = set(now)

    @invariant()
    def nodes_are_counted_once(self) -> None:
        assert self.index.nodes == len({node_of(name) for name in self.reports})

    @invariant()
    def a_generation_stands_for_one_content(self) -> None:
        for key in KEYS:
            content = (self.index.unlisted, in_force(self.index, key), in_force(self.index, StorageKey(key.driver)))
            generation = self.index.generation((key,))
            assert content == self.history.setdefault((key, generation), content)
            assert generation >= self.generations.get(key, 0)
            self.generations[key] = generation


TestIndexAgainstRecomputation = IndexAgainstRecomputation.TestCase
TestIndexAgainstRecomputation.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
