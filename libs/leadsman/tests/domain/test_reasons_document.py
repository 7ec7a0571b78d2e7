"""docs/reasons.md has an entry for every reason, and says the same as the code."""

import re
from pathlib import Path

import pytest

from leadsman.domain.reasons import Reason, Scope, evidence_of, scope_of
from leadsman.domain.states import Evidence

DOCUMENT = Path(__file__).parents[4] / "docs" / "reasons.md"
PARTS = ["Meaning", "Evidence", "Scope", "Scheduling", "What to do", "Clears"]
EVIDENCE = {Evidence.DATA_PATH: "Data path.", Evidence.CONTROL_PLANE: "Control plane."}
SCOPES = {
    Scope.NEW_MOUNTS: "New mounts",
    Scope.EXISTING_MOUNTS: "Existing mounts",
    Scope.BOTH: "Both",
    Scope.NONE: "None",
}


def entries() -> dict[str, str]:
    """The text of each entry by its heading."""
    _, *parts = re.split(r"^### (.+)$", DOCUMENT.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def part(entry: str, name: str) -> str:
    """What follows `**name.**` up to the next part."""
    found = re.search(rf"^\*\*{name}\.\*\*(.*?)(?=^\*\*[A-Z]|\Z)", entry, re.MULTILINE | re.DOTALL)
    return found[1].strip().rstrip("-").strip() if found else ""


def test_every_reason_has_one_entry_and_there_are_no_others() -> None:
    """A reason without an entry leaves an operator alone with a word."""
    headings = re.findall(r"^### (.+)$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(headings) == sorted(reason.value for reason in Reason)


@pytest.mark.parametrize("reason", Reason)
def test_every_entry_has_all_its_parts_in_order(reason: Reason) -> None:
    """Meaning, evidence, scope, effect, remedy and end, none of them empty."""
    entry = entries()[reason.value]
    assert re.findall(r"^\*\*([^*]+)\.\*\*", entry, re.MULTILINE) == PARTS
    assert all(part(entry, name) for name in PARTS)
    assert part(entry, "What to do").startswith("* ")


@pytest.mark.parametrize("reason", Reason)
def test_evidence_and_scope_are_those_of_the_code(reason: Reason) -> None:
    """The document begins both with the class that decisions are made by."""
    entry = entries()[reason.value]
    assert part(entry, "Evidence").startswith(EVIDENCE[evidence_of(reason)])
    assert re.match(rf"{SCOPES[scope_of(reason)]}\b", part(entry, "Scope"))


def test_links_lead_to_entries() -> None:
    """Headings are their own anchors in lower case; every reason is in the contents."""
    text = DOCUMENT.read_text(encoding="utf-8")
    anchors = {heading.lower().replace(" ", "-") for heading in re.findall(r"^##+ (.+)$", text, re.MULTILINE)}
    linked = re.findall(r"\]\(#([^)]+)\)", text)
    assert set(linked) == anchors
    contents = text.partition("## How to read")[0]
    assert all(f"[{reason.value}](#{reason.value.lower()})" in contents for reason in Reason)
