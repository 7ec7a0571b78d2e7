"""The SchedulingPolicyTest document: pretended nodes, pods that want one, and what a policy should make of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from leadsman.config.check import Checker
from leadsman.config.errors import DocumentError
from leadsman.config.load import read_text
from leadsman.config.tree import Tree, parse_tree
from leadsman.domain.reasons import Reason
from leadsman.domain.requirements import Near, Profile, Requirement
from leadsman.wire.pod import ObjectMeta, Pod
from leadsman_cli.pod_volumes import annotated_near
from leadsman_cli.policy_nodes import KeyPath, NodeEntry, check_nodes, nearest, split_storage


class RejectionEntry(msgspec.Struct, frozen=True):
    """A rejection, as exactly as the case wants it: by its reason, and by the rule or the driver that it is about."""

    reason: Reason
    rule: str = ""
    driver: str = ""

    @property
    def subject(self) -> str:
        """The rule or the driver; empty if the case does not care."""
        return self.rule or self.driver


class PodEntry(msgspec.Struct, frozen=True, rename="camel"):
    """The pod of a case.

    `storage` lists what it needs as `driver` or `driver/backend`, `volumes` its PersistentVolumes as `driver/volume`.
    """

    namespace: str = "default"
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    priority_class: str = ""
    storage: list[str] = []
    volumes: list[str] = []
    near_zone: str = ""
    near_region: str = ""

    @property
    def profile(self) -> Profile:
        """What rules select on."""
        return Profile(self.namespace, self.labels, self.priority_class, self.annotations)

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """Its needs; a volume lies on the storage that the pod names of its driver, if it names exactly one."""
        keys = [split_storage(text) for text in self.storage]
        needs = [Requirement(key.driver, key.backend) for key in keys]
        for text in self.volumes:
            driver, _, volume = text.partition("/")
            backends = {key.backend for key in keys if key.driver == driver}
            needs.append(Requirement(driver, backends.pop() if len(backends) == 1 else "", volume))
        return tuple(needs)

    @property
    def near(self) -> Near:
        """Where its data is: by its annotations, or else by `near_zone` and `near_region`."""
        stated = Near(*[(text,) if text else () for text in (self.near_zone, self.near_region)])
        annotated = annotated_near(Pod(ObjectMeta(annotations=self.annotations)))
        return stated if annotated is None else annotated


Rejections = dict[str, RejectionEntry]


class ExpectEntry(msgspec.Struct, frozen=True):
    """What should come of it, by node. A node that is not in `rejected` must pass, unless only `allowed` is given.

    `shadow`, `scores` and `best` are looked at if they are given; see `services/cli/README.md`.
    """

    rejected: Rejections | None = None
    allowed: list[str] | None = None
    shadow: Rejections | None = None
    scores: dict[str, int] = {}
    best: list[str] = []


class CaseEntry(msgspec.Struct, frozen=True):
    """One case."""

    name: str
    pod: PodEntry = PodEntry()
    expect: ExpectEntry = ExpectEntry()


class SchedulingPolicyTest(msgspec.Struct, frozen=True, rename="camel"):
    """The whole file."""

    api_version: Literal["leadsman.dev/v1alpha1"]
    kind: Literal["SchedulingPolicyTest"]
    nodes: dict[str, NodeEntry]
    cases: list[CaseEntry]


@dataclass(frozen=True, slots=True)
class Cases:
    """A file that can be used. `lines` are those on which the cases begin."""

    source: str
    nodes: Mapping[str, NodeEntry]
    cases: tuple[CaseEntry, ...]
    lines: tuple[int, ...]


def load_cases(path: Path) -> Cases:
    """The cases in the file `path`.

    Raises:
        DocumentError: the file cannot be read or used; the message names every problem with its line.
    """
    return parse_cases(read_text(path), str(path))


def parse_cases(text: str, source: str) -> Cases:
    """The cases in `text`; `source` stands for the file in errors.

    Raises:
        DocumentError: the document cannot be used.
    """
    tree = parse_tree(text, source)
    _expand(tree)
    checker = Checker(tree)
    checker.check(tree.value, SchedulingPolicyTest)
    _refuse(source, checker)
    document = msgspec.convert(tree.value, SchedulingPolicyTest)
    check_nodes(document.nodes, checker)
    _check_cases(document, checker)
    _refuse(source, checker)
    lines = tuple(tree.line(("cases", number)) for number in range(len(document.cases)))
    return Cases(source, document.nodes, tuple(document.cases), lines)


def _refuse(source: str, checker: Checker) -> None:
    if checker.problems:
        raise DocumentError(source, checker.problems)


def _expand(tree: Tree) -> None:
    """Write short forms out: a reason alone for a rejection, and one name for a list of one."""
    cases = tree.value.get("cases") if isinstance(tree.value, dict) else None
    for case in cases if isinstance(cases, list) else ():
        expect = case.get("expect") if isinstance(case, dict) else None
        if not isinstance(expect, dict):
            continue
        for key in ("rejected", "shadow"):
            rejections = expect.get(key)
            if isinstance(rejections, dict):
                expect[key] = {
                    node: {"reason": one} if isinstance(one, str) else one for node, one in rejections.items()
                }
        if isinstance(expect.get("best"), str):
            expect["best"] = [expect["best"]]


def _check_cases(document: SchedulingPolicyTest, checker: Checker) -> None:
    if not document.cases:
        checker.add(("cases",), "there are none, so this file tests nothing")
    seen: set[str] = set()
    for number, case in enumerate(document.cases):
        at: KeyPath = ("cases", number)
        if case.name in seen:
            checker.add((*at, "name"), f"an earlier case is called {case.name!r}, too")
        seen.add(case.name)
        _check_pod(case.pod, checker, (*at, "pod"))
        _check_expected(case.expect, document.nodes, checker, (*at, "expect"))


def _check_pod(pod: PodEntry, checker: Checker, at: KeyPath) -> None:
    for position, text in enumerate(pod.storage):
        if not split_storage(text).driver:
            checker.add((*at, "storage", position), "not `driver` or `driver/backend`")
    for position, text in enumerate(pod.volumes):
        if not all(text.partition("/")):
            checker.add((*at, "volumes", position), "not `driver/volume`, where volume is a PersistentVolume's name")


def _check_expected(expect: ExpectEntry, nodes: Mapping[str, NodeEntry], checker: Checker, at: KeyPath) -> None:
    lists: dict[str, Iterable[str]] = {
        "rejected": expect.rejected or (),
        "allowed": expect.allowed or (),
        "shadow": expect.shadow or (),
        "scores": expect.scores,
        "best": expect.best,
    }
    for key, names in lists.items():
        for name in names:
            if name not in nodes:
                checker.add((*at, key), f"no node of this file is called {name!r}; {nearest(name, nodes)}")
    for node, score in expect.scores.items():
        if not 0 <= score <= 10:
            checker.add((*at, "scores", node), f"scores are from 0 to 10, not {score}")
    _check_complete(expect, nodes, checker, at)


def _check_complete(expect: ExpectEntry, nodes: Mapping[str, NodeEntry], checker: Checker, at: KeyPath) -> None:
    """Where both lists are given, every node must be in exactly one of them."""
    if expect.rejected is None or expect.allowed is None:
        return
    both = sorted(set(expect.allowed) & expect.rejected.keys())
    neither = sorted(nodes.keys() - expect.rejected.keys() - set(expect.allowed))
    if both:
        checker.add(at, f"both rejected and allowed: {', '.join(both)}")
    if neither:
        checker.add(at, f"neither rejected nor allowed: {', '.join(neither)}; list them, or leave one of the lists out")
