"""The filter's whole answer to a question: storage and the policy's rules together.

One node gets one reason: storage before rules, rules that evicting pods could not resolve before those that it could,
and among these the first in the document.
"""

from leadsman.domain.health_index import HealthIndex
from leadsman.domain.policy import Mode, SchedulingPolicy
from leadsman.domain.rejections import storage_answer
from leadsman.domain.requirements import Question
from leadsman.domain.rule_index import RuleIndex, Together
from leadsman.domain.verdicts import FilterAnswer, Rejection


def filter_answer(health: HealthIndex, rules: RuleIndex, question: Question, policy: SchedulingPolicy) -> FilterAnswer:
    """The answer for every node, without what single volumes add (`rejections.volume_rejections`).

    `rules` are the rules of `policy` that require something. The answer's `shadow` rejects only nodes that the answer
    itself lets pass; it is None if no rule that is not enforced touches the pod.
    """
    numbers = question.rules
    enforced = rules.together(tuple([number for number in numbers if rules.rules[number].enforce]))
    answer = _with_rules(storage_answer(health, question.needs), enforced, rules)
    watched = tuple([number for number in numbers if not rules.rules[number].enforce])
    shadow = _shadow(answer, rules.together(watched), rules) if watched else None
    return answer._replace(shadow=shadow, dry_run=policy.mode is Mode.SHADOW)


def generation(health: HealthIndex, rules: RuleIndex, question: Question) -> int:
    """A number that grows when what the answer depends on has changed; never 0, never back."""
    return max(health.generation(question.needs), *map(rules.changed, question.rules), 0)


def _with_rules(storage: FilterAnswer, say: Together, rules: RuleIndex) -> FilterAnswer:
    """The answer of `storage`, and what the enforced rules `say` of the nodes that it lets pass."""
    if storage.otherwise is not None:
        failing = _among(storage.allowed, say, rules)
        return storage._replace(rejected={**storage.rejected, **failing}, allowed=storage.allowed - failing.keys())
    rejected = {**say.failing, **storage.rejected}
    if say.unlisted is None:
        return FilterAnswer(rejected)
    return FilterAnswer(rejected, frozenset(rules.outcomes) - rejected.keys(), say.unlisted)


def _shadow(answer: FilterAnswer, say: Together, rules: RuleIndex) -> FilterAnswer:
    """What rules that are not enforced `say` of the nodes that pass by `answer`; it lets all others pass."""
    if answer.otherwise is not None:
        return FilterAnswer(_among(answer.allowed, say, rules))
    rejected = {node: rejection for node, rejection in say.failing.items() if node not in answer.rejected}
    if say.unlisted is None:
        return FilterAnswer(rejected)
    passing = frozenset({*rules.outcomes, *answer.rejected} - rejected.keys())
    return FilterAnswer(rejected, passing, say.unlisted)


def _among(nodes: frozenset[str], say: Together, rules: RuleIndex) -> dict[str, Rejection]:
    """Those of `nodes` that fail, whether known or not."""
    found = {node: rejection for node, rejection in say.failing.items() if node in nodes}
    if say.unlisted is not None:
        found.update(dict.fromkeys((node for node in nodes if node not in rules.outcomes), say.unlisted))
    return found
