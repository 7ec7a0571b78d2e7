"""Metrics of policy rules that filter and scorer have in common."""

from prometheus_client.core import CounterMetricFamily

from leadsman.domain.rule_outcomes import RuleOutcomes


def undecided_family(component: str, outcomes: RuleOutcomes) -> CounterMetricFamily:
    """How often each rule could not be decided on a node; begins anew with every policy."""
    family = CounterMetricFamily(
        f"leadsman_{component}_rule_undecided",
        "Evaluations of a rule on a node that gave no result, because facts are missing or its expression fails there.",
        labels=["rule"],
    )
    for name, count in outcomes.undecided_counts().items():
        family.add_metric([name], count)
    return family
