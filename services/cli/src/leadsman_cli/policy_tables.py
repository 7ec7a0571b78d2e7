"""The pictures of `leadsman policy` and `leadsman simulate`."""

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

import msgspec
import yaml
from rich.table import Table
from rich.text import Text

from leadsman.domain.fact_table import FACTS, STORAGE_FACTS, Fact, StorageFact
from leadsman.domain.policy import Mode
from leadsman.domain.reasons import Reason
from leadsman.domain.verdicts import Rejection
from leadsman_cli.case_results import Difference
from leadsman_cli.outcome_words import rejection_words
from leadsman_cli.simulation import ALLOWED, ComponentView, NodeView, OutcomeView, PolicyView, Simulation
from leadsman_cli.tables import columns

_VERDICT_STYLES = {ALLOWED: "green"}
_ARROW = " -> "
_ABOUT_NODES = (
    ("name", "text", "name of the Node"),
    ("labels", "map of texts", "its labels (Node)"),
    ("zone", "text", "its label topology.kubernetes.io/zone, not known without it"),
    ("region", "text", "its label topology.kubernetes.io/region, not known without it"),
    ("facts", "map", "all facts by name, to ask whether one is known: 'gpu.count' in node.facts"),
)


def as_text(document: object, output: str) -> str:
    """`document` as `json` or `yaml`."""
    if output == "json":
        return msgspec.json.format(msgspec.json.encode(document)).decode()
    return yaml.safe_dump(msgspec.to_builtins(document), sort_keys=False, allow_unicode=True, width=100).rstrip()


def differences_table(differences: Iterable[Difference]) -> Table:
    """What a case expected and what came instead."""
    table = columns("  NODE", "EXPECTED", "GOT", wrapped="GOT")
    for one in differences:
        table.add_row(f"  {one.node or '-'}", Text(one.expected, "green"), Text(one.got, "red"))
    return table


def facts_table() -> Table:
    """All facts that rules may read."""
    table = columns("FACT", "TYPE", "UNIT", "AGE", "MEANING (SOURCE)", wrapped="MEANING (SOURCE)")
    for name, kind, meaning in _ABOUT_NODES:
        table.add_row(f"node.{name}", kind, "-", "1 period", meaning)
    for fact in FACTS.values():
        table.add_row(f"node.{fact.name}", fact.type.value, fact.unit or "-", _age(fact.age), _meaning(fact))
    for one in STORAGE_FACTS.values():
        table.add_row(f"node.storage.{one.name}[...]", one.type.value, one.unit or "-", "1 period", _meaning(one))
    return table


def facts_document() -> dict[str, list[dict[str, str]]]:
    """The same for programs."""
    return {
        "facts": [fact._asdict() for fact in FACTS.values()],
        "storage_facts": [one._asdict() for one in STORAGE_FACTS.values()],
    }


def _meaning(fact: Fact | StorageFact) -> str:
    source = fact.source.replace("`", "")
    return f"{fact.meaning} ({source})".replace("`", "'")


def _age(age: str) -> str:
    if not age.isdigit():
        return age
    return f"{age} period" if age == "1" else f"{age} periods"


def simulation_table(simulation: Simulation, *, wide: bool) -> Table:
    """A row for each node, the best for the pod first; `wide` adds the cap and the components of the score."""
    shown = simulation.nodes[0].last.components if wide and simulation.nodes else []
    names = ["NODE", "VERDICT", "SCORE"]
    if wide:
        names += ["CAP", *(f"{one.name} x {one.weight:g}" for one in shown)]
    table = columns(*names, "REASON", wrapped="REASON")
    for node in simulation.nodes:
        cells = [_verdict_cell(node), _changed(node, lambda one: str(one.score))]
        if wide:
            cells += [Text(str(node.last.cap)), *_components(node.last.components)]
        table.add_row(node.node, *cells, _changed(node, _reason_words))
    return table


def _verdict_cell(node: NodeView) -> Text:
    cell = _changed(node, attrgetter("verdict"))
    cell.stylize(_VERDICT_STYLES.get(node.last.verdict, "bold red"))
    return cell


def _changed(node: NodeView, words_of: Callable[[OutcomeView], str]) -> Text:
    """`before -> after`, or only the one word where nothing changes."""
    before, after = words_of(node.now), words_of(node.last)
    return Text(before if after == before else f"{before}{_ARROW}{after}")


def _components(components: Sequence[ComponentView]) -> list[Text]:
    return [Text("?", "dim") if one.value is None else Text(f"{one.value:.2f}") for one in components]


def _reason_words(outcome: OutcomeView) -> str:
    words = rejection_words(Rejection(Reason(outcome.reason), outcome.subject)) if outcome.reason else ""
    if outcome.shadow:
        words = f"{words}, " if words else ""
        words += f"shadow: {outcome.shadow}"
    if outcome.why:
        words += f": {outcome.why}"
    return words or "-"


def heading(simulation: Simulation) -> list[str]:
    """The pod, what it needs, and the policies that were asked."""
    needs = sorted({"/".join(filter(None, (need.driver, need.backend))) for need in simulation.needs})
    near = f", near {', '.join(simulation.near)}" if simulation.near else ""
    lines = [f"pod     {simulation.pod}, needs {', '.join(needs) if needs else 'no storage'}{near}"]
    lines.append(f"policy  {_policy_words(simulation.policy)}")
    if simulation.proposed is not None:
        lines.append(f"then    {_policy_words(simulation.proposed)}")
    return lines


def _policy_words(policy: PolicyView) -> str:
    rules = ", ".join(policy.rules) if policy.rules else "none"
    name = policy.source if policy.source == policy.fingerprint else f"{policy.source} {policy.fingerprint}"
    return f"{name}, {policy.mode}; rules for this pod: {rules}"


def summary(simulation: Simulation) -> list[str]:
    """What it comes to, and what to know about it."""
    nodes = simulation.nodes
    passing = sum(node.last.verdict == ALLOWED for node in nodes)
    lines = [f"{passing} of {len(nodes)} nodes may take it."]
    if simulation.proposed is not None:
        lines[0] += f" The other policy changes {sum(node.changes for node in nodes)} of them."
    if simulation.last.mode == Mode.SHADOW:
        lines.append("Mode shadow: nothing is enforced, and kube-scheduler gets no scores.")
    elif not simulation.last.scored:
        lines.append(
            "No scores are asked for: it needs no storage, is near nothing, and no rule that prefers touches it."
        )
    lines += [
        f"The breaker of {driver} is open: its nodes are not rejected on weak evidence."
        for driver in simulation.last.open_breakers
    ]
    lines.append("kube-scheduler's own plugins are not part of this.")
    return lines
