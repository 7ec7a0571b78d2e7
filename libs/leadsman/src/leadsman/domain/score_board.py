"""The scorer's answers: for every kind of pod a table of scores, of which only what changed is worked out again. Pure.

States of storage count at once. Facts, and what rules that prefer make of them, come in force with `commit`, about
once a second: load and latency change all the time, and a placement needs no fresher ones.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping

from leadsman.domain.changes import ChangeCounter
from leadsman.domain.fact_index import FactIndex
from leadsman.domain.health import Health
from leadsman.domain.health_index import HealthIndex
from leadsman.domain.node_values import NodeValues, ValuesInForce
from leadsman.domain.policy import Mode, SchedulingPolicy
from leadsman.domain.report import StorageKey
from leadsman.domain.requirements import Near, Question
from leadsman.domain.rule_outcomes import RuleOutcomes
from leadsman.domain.score_table import ScoreTable, sources
from leadsman.domain.scores import Cap
from leadsman.domain.verdicts import ScoreAnswer

MAX_TABLES = 256
"""Kinds of pods whose tables are kept; the least recently used go first."""

MAX_ROWS = 1_000_000
"""Rows of all tables together, some 20 bytes each; one table is kept whatever its size."""

_MAX_GONE = 1000
"""Nodes that may be gone, beyond as many as there are, before the list of changes is begun anew."""


class ScoreBoard:
    """Answers questions under one policy, in step with `health` and `facts` until `close`.

    Nothing is known at first: run `fill` to its end, unless `facts` is empty still. Numbers of generations are those of
    `changes`, which everything that an answer rests on must share.
    """

    def __init__(self, policy: SchedulingPolicy, health: HealthIndex, facts: FactIndex, changes: ChangeCounter) -> None:
        self._policy = policy
        self._health = health
        self._changes = changes
        self._values = ValuesInForce(policy.preferring, facts)
        self._only_health: set[str] = set()
        self._tables: OrderedDict[Question, ScoreTable] = OrderedDict()
        self._changed: dict[str, int] = {}
        self._last = 0
        health.listen(self)

    @property
    def outcomes(self) -> RuleOutcomes:
        """What the rules that prefer say of every node, changes that are not in force yet included."""
        return self._values.outcomes

    def fill(self) -> Iterator[object]:
        """Work out everything that facts say, a node at each step; it is in force at the end."""
        yield from self._values.fill()
        self.commit()

    def simplified(self, question: Question) -> Question:
        """`question` without places that no node is in: they change nothing, and pods may name any number of them."""
        return question if question.near == Near() else question._replace(near=self._values.inhabited(question.near))

    def answer(self, question: Question) -> ScoreAnswer:
        """Scores, caps and components of every node for pods that ask `question`."""
        return self._table(question).answer(dry_run=self._policy.mode is Mode.SHADOW)

    def generation(self, question: Question) -> int:
        """A number that grows when the answer may have changed, and stays while a look finds all as it was."""
        return self._table(question).generation

    def commit(self) -> None:
        """Let changed facts count."""
        changed = self._values.commit()
        for node in changed:
            self._note_membership(node)
            self._mark(node)
        if changed:
            self._changes.next()
        self._drop_moved_zones()
        if len(self._changed) > 2 * len(self._values) + _MAX_GONE:
            self.reset()

    def refresh(self, node: str) -> None:
        """The states in force on `node` have changed; they count at once."""
        self._note_membership(node)
        self._mark(node)

    def reset(self) -> None:
        """What states are worth has changed as a whole: begin every table anew."""
        self._tables.clear()
        self._changed.clear()

    def close(self) -> None:
        """Follow the cluster no more."""
        self._health.unlisten(self)
        self._values.close()

    def _note_membership(self, node: str) -> None:
        """A new node counts with its states before its facts have come in force."""
        if node not in self._values and self._health.in_force(node):
            self._only_health.add(node)
        else:
            self._only_health.discard(node)

    def _mark(self, node: str) -> None:
        """Put `node` at the end of the list of changes."""
        self._last += 1
        self._changed.pop(node, None)
        self._changed[node] = self._last

    def _drop_moved_zones(self) -> None:
        moved = self._values.take_moved_zones()
        if moved:
            for question in [one for one in self._tables if not moved.isdisjoint(one.near.zones)]:
                del self._tables[question]

    def _table(self, question: Question) -> ScoreTable:
        """The table of `question`, brought up to date."""
        table = self._tables.get(question)
        if table is None:
            return self._make(question)
        self._tables.move_to_end(question)
        if table.seen != self._last:
            self._catch_up(table)
        return table

    def _catch_up(self, table: ScoreTable) -> None:
        changed = False
        for node in reversed(self._changed):
            if self._changed[node] <= table.seen:
                break
            changed |= self._update(table, node)
        table.seen = self._last
        if changed:
            table.generation = self._changes.value

    def _update(self, table: ScoreTable, node: str) -> bool:
        values = self._values.get(node)
        if values is None and node not in self._only_health:
            return table.forget(node)
        return table.update(node, values or self._values.unknown, self._health.in_force(node))

    def _make(self, question: Question) -> ScoreTable:
        near = question.near
        regions = frozenset(near.regions) | self._values.regions_of(near.zones)
        cap = Cap(question.needs, self._policy.storage, self._health.unlisted, self._health.open_breakers)
        table = ScoreTable(sources(self._policy, question, regions), cap, self._values.unknown)
        table.build(self._rows())
        table.seen, table.generation = self._last, self._changes.value
        self._tables[question] = table
        while len(self._tables) > 1 and len(self._tables) > min(MAX_TABLES, MAX_ROWS // max(1, len(table.nodes))):
            self._tables.popitem(last=False)
        return table

    def _rows(self) -> dict[str, tuple[NodeValues, Mapping[StorageKey, Health]]]:
        in_force, unknown = self._health.in_force, self._values.unknown
        rows = {node: (self._values.get(node) or unknown, in_force(node)) for node in self._values}
        rows.update((node, (unknown, in_force(node))) for node in self._only_health)
        return rows
