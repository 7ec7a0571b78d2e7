"""Are the answers right? Asked before anything is timed: a benchmark of wrong answers is worthless."""

import http.client
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from leadsman_bench import fleet
from leadsman_bench.cases import Case
from leadsman_bench.load import LoadError
from leadsman_bench.node_objects import node_name
from leadsman_bench.payloads import Body


@dataclass(frozen=True, slots=True)
class Answer:
    """What a filter call said, in whatever form: names that pass in order, node to reason, and any error."""

    passing: list[str]
    rejected: dict[str, str]
    error: str


class Examiner:
    """Asks servers for every case and compares with the truth: that of `fleet`, and nodes that `rules` reject."""

    def __init__(self, bodies: Path, rules: Mapping[str, str] = MappingProxyType({})) -> None:
        self._bodies = bodies
        self._rules = rules

    def scores(self, port: int, *, storage: bool = True) -> dict[str, int]:
        """Leadsman's own scores of all nodes, so that the Go extender can give the same; empty without a scorer.

        Raises:
            LoadError: for the pod with storage they do not rank healthy before degraded before unhealthy nodes.
        """
        listed = json.loads(self._ask("Leadsman", port, Case("prioritize", Body(fleet.NODES, storage=storage))))
        scores = {entry["Host"]: entry["Score"] for entry in listed}
        if scores and storage:
            _check_ranking(scores)
        return scores

    def check(self, cases: Iterable[Case], ports: Mapping[str, int]) -> dict[Case, dict[str, int]]:
        """The size of each server's answer to each case, once all servers have given the same right answer.

        Raises:
            LoadError: one of them is wrong; says which server, which case, and what differs.
        """
        return {case: self._check_case(case, ports) for case in cases}

    def ask(self, port: int, case: Case) -> Any:
        """Leadsman's answer to `case`, right or wrong, parsed.

        Raises:
            LoadError: there is none.
        """
        return json.loads(self._ask("Leadsman", port, case))

    def _check_case(self, case: Case, ports: Mapping[str, int]) -> dict[str, int]:
        answers = {name: self._ask(name, port, case) for name, port in ports.items()}
        parsed = {name: json.loads(answer) for name, answer in answers.items()}
        for name, answer in parsed.items():
            if case.verb == "filter":
                _check_filter(name, case, read_filter(answer), expected_filter(case.body, self._rules))
            elif answer != parsed["Leadsman"]:
                raise LoadError(f"{name} and Leadsman do not give the same scores in '{case.name}'")
        return {name: len(answer) for name, answer in answers.items()}

    def _ask(self, name: str, port: int, case: Case) -> bytes:
        body = (self._bodies / case.body.file_name).read_bytes()
        try:
            status, answer = _post(port, f"/{case.verb}", body)
        except (OSError, http.client.HTTPException) as error:
            raise LoadError(f"{name} did not answer in '{case.name}': {error!r}") from error
        if status != 200:
            raise LoadError(f"{name} answered {status} in '{case.name}': {answer[:300].decode(errors='replace')}")
        return answer


def _post(port: int, path: str, body: bytes) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def read_filter(answer: dict[str, Any]) -> Answer:
    """A parsed filter result, names or full nodes."""
    nodes = (answer.get("Nodes") or {}).get("items") or []
    passing = answer.get("NodeNames") or [node["metadata"]["name"] for node in nodes]
    rejected = {**(answer.get("FailedNodes") or {}), **(answer.get("FailedAndUnresolvableNodes") or {})}
    return Answer(passing, rejected, answer.get("Error") or "")


def expected_filter(body: Body, rules: Mapping[str, str] = MappingProxyType({})) -> Answer:
    """The right answer to a filter call with `body`; `rules` are the reply texts of nodes that only rules reject."""
    names = [node_name(number) for number in range(body.count)]
    rejected = {name: rules[name] for name in names if name in rules}
    if body.storage:
        rejected |= fleet.rejections(body.count)
    return Answer([name for name in names if name not in rejected], rejected, "")


def _check_filter(name: str, case: Case, given: Answer, expected: Answer) -> None:
    if given == expected:
        return
    raise LoadError(
        f"{name} is wrong in '{case.name}': {len(given.passing)} nodes pass and {len(given.rejected)} are rejected, "
        f"expected {len(expected.passing)} and {len(expected.rejected)}; {_difference(given, expected)}"
    )


def _difference(given: Answer, expected: Answer) -> str:
    if given.error != expected.error:
        return f"it reports an error: {given.error}"
    for node in sorted(given.rejected.keys() | expected.rejected.keys()):
        left, right = given.rejected.get(node), expected.rejected.get(node)
        if left != right:
            return f"the first difference is {node}: {left or 'passes'!r}, expected {right or 'to pass'!r}"
    return "the passing nodes differ or are in another order"


def _check_ranking(scores: Mapping[str, int]) -> None:
    ranks: dict[str, set[int]] = {"healthy": set(), "degraded": set(), "unhealthy": set()}
    for number in range(fleet.NODES):
        kind = "unhealthy" if fleet.fault(number) else "degraded" if fleet.degraded(number) else "healthy"
        ranks[kind].add(scores[node_name(number)])
    if not min(ranks["healthy"]) > max(ranks["degraded"]) > max(ranks["unhealthy"]):
        raise LoadError(f"Leadsman's scores do not follow the states: {ranks}")
