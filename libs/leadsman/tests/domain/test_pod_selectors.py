"""Selectors mean what they mean in Kubernetes, and are looked at once for each kind of pod."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.domain.pod_selectors import MAX_KEPT, Operator, PodSelector, SelectorSet, Term
from leadsman.domain.requirements import Profile

IN, NOT_IN, EXISTS, ABSENT, GT, LT = Operator


@pytest.mark.parametrize(
    ("term", "holds_for"),
    [
        (Term("k", IN, ("a", "b")), {"a", "b"}),
        (Term("k", NOT_IN, ("a",)), {"b", "7", "", None}),
        (Term("k", EXISTS), {"a", "b", "7", ""}),
        (Term("k", ABSENT), {None}),
        (Term("k", GT, ("6",)), {"7"}),
        (Term("k", LT, ("8",)), {"7"}),
        (Term("k", GT, ("7",)), set()),
        (Term("k", LT, ("7",)), set()),
    ],
)
def test_a_term_holds_as_in_kubernetes(term: Term, holds_for: set[str | None]) -> None:
    """NotIn also holds without the key; Gt and Lt hold for whole numbers only, and never for equal ones."""
    values = ["a", "b", "7", "", None]
    found = {value for value in values if term.holds({} if value is None else {"k": value})}
    assert found == holds_for


@pytest.mark.parametrize("value", ["1_000", "9" * 20, "1.5", "0x10", "\u0663", " 7", ""])
def test_what_kubernetes_does_not_read_as_a_number_holds_for_neither(value: str) -> None:
    """As strconv.ParseInt in 64 bits; Python's own int reads more."""
    assert not any(Term("k", operator, ("3",)).holds({"k": value}) for operator in (GT, LT))


def test_all_parts_of_a_selector_must_match() -> None:
    """Labels and annotations all, one of the namespaces, one of the priority classes."""
    selector = PodSelector(
        labels=(Term("app", IN, ("db",)),),
        annotations=(Term("tier", EXISTS),),
        namespaces=frozenset({"prod", "stage"}),
        priority_classes=frozenset({"high"}),
    )
    fits = Profile("stage", {"app": "db"}, "high", {"tier": ""})
    assert selector.matches(fits)
    for other in (
        Profile("dev", {"app": "db"}, "high", {"tier": ""}),
        Profile("stage", {"app": "web"}, "high", {"tier": ""}),
        Profile("stage", {"app": "db"}, "", {"tier": ""}),
        Profile("stage", {"app": "db"}, "high", {}),
    ):
        assert not selector.matches(other)


def test_an_empty_selector_matches_every_pod() -> None:
    """As `pods: {}` or no `pods` at all says."""
    assert PodSelector().matches(Profile())


TERMS = st.builds(
    Term, st.sampled_from("xy"), st.sampled_from([IN, NOT_IN]), st.lists(st.sampled_from("ab"), min_size=1).map(tuple)
) | st.builds(Term, st.sampled_from("xy"), st.sampled_from([EXISTS, ABSENT]))
SELECTORS = st.builds(
    PodSelector,
    labels=st.lists(TERMS, max_size=2).map(tuple),
    annotations=st.lists(TERMS, max_size=1).map(tuple),
    namespaces=st.frozensets(st.sampled_from("mn"), max_size=1),
    priority_classes=st.frozensets(st.sampled_from("hl"), max_size=1),
)
LABELS = st.dictionaries(st.sampled_from("xyz"), st.sampled_from("abc"))
PROFILES = st.builds(Profile, st.sampled_from("mno"), LABELS, st.sampled_from(["", "h", "l", "z"]), LABELS)


@given(selectors=st.lists(SELECTORS, max_size=4), profiles=st.lists(PROFILES, max_size=12))
def test_what_is_remembered_is_what_the_selectors_say(selectors: list[PodSelector], profiles: list[Profile]) -> None:
    """Two pods of one kind are alike to every selector, whatever else they carry."""
    rules = SelectorSet(selectors)
    for profile in profiles:
        assert rules.matching(profile) == tuple(n for n, each in enumerate(selectors) if each.matches(profile))


def test_memory_is_bounded_however_different_the_pods() -> None:
    """Namespaces that selectors name can be many; the kinds that are remembered are not."""
    names = [f"ns-{number}" for number in range(MAX_KEPT + 100)]
    rules = SelectorSet([PodSelector(namespaces=frozenset(names))])
    for name in names:
        assert rules.matching(Profile(name)) == (0,)
    assert len(rules._known) == MAX_KEPT


def test_what_no_selector_names_is_not_remembered() -> None:
    """Values are the pod's to choose: huge ones, or ones that differ on every pod, must not fill the memory."""
    rules = SelectorSet(
        [PodSelector(annotations=(Term("note", EXISTS),)), PodSelector(labels=(Term("id", NOT_IN, ("7",)),))]
    )
    for number in range(50):
        profile = Profile(labels={"id": str(number)}, annotations={"note": "x" * number})
        assert rules.matching(profile) == ((0,) if number == 7 else (0, 1))
    assert len(rules._known) == 2
    assert rules.matching(Profile()) == (1,)


def test_a_pod_is_matched_once_whatever_its_other_labels() -> None:
    """Labels that no selector reads make no new kind."""
    rules = SelectorSet([PodSelector(labels=(Term("app", IN, ("db",)),))])
    for number in range(50):
        rules.matching(Profile(f"ns-{number}", {"app": "db", "pod-template-hash": str(number)}, "any"))
    assert len(rules._known) == 1
    assert rules.annotations == ()
