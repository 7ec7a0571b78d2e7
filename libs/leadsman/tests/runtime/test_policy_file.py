"""The policy file: parsed when its text changes and not before, and never a reason to stop working."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from leadsman.config.errors import DocumentError
from leadsman.config.load import read_text
from leadsman.config.policy_document import parse_policy
from leadsman.domain.policy import SchedulingPolicy
from leadsman.runtime import policy_file
from leadsman.runtime.policy_file import PolicyFile
from leadsman.testing.clock import FakeClock
from leadsman.testing.waiting import eventually

HEAD = "apiVersion: leadsman.dev/v1alpha1\nkind: SchedulingPolicy\n"


class Watched:
    """A policy file under watch, and the policies that came in force."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.registry = CollectorRegistry()
        self.file = PolicyFile(path, clock=FakeClock(), registry=self.registry)
        self.taken: list[SchedulingPolicy] = []
        self.broken = False

    async def take(self, policy: SchedulingPolicy) -> None:
        if self.broken:
            raise ZeroDivisionError
        self.taken.append(policy)

    def write(self, text: str) -> None:
        self.path.write_text(text)

    def count(self, result: str) -> float | None:
        return self.registry.get_sample_value("leadsman_policy_reloads_total", {"result": result})


@pytest.fixture
async def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Watched]:
    monkeypatch.setattr(policy_file, "LOOK_EVERY_S", 0.005)
    path = tmp_path / "policy.yaml"
    path.write_text(HEAD)
    watched = Watched(path)
    task = asyncio.create_task(watched.file.run(watched.take))
    yield watched
    assert not task.done(), "the watch must never end by itself"
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_an_unchanged_text_is_read_and_not_parsed(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a good nor a refused one: compiling hundreds of expressions every second would hold the event loop."""
    parsed, read = [], []

    def counted_parse(text: str, source: str) -> SchedulingPolicy:
        parsed.append(text)
        return parse_policy(text, source)

    def counted_look(path: Path) -> str:
        read.append(path)
        return read_text(path)

    monkeypatch.setattr(policy_file, "parse_policy", counted_parse)
    monkeypatch.setattr(policy_file, "read_text", counted_look)
    await eventually("ten looks", lambda: len(read), lambda looks: looks > 10)
    assert parsed == []
    bad = HEAD + "mode: shadw\n"
    watched.write(bad)
    await eventually("it is refused", lambda: watched.file.refused)
    seen = len(read)
    await eventually("ten looks more", lambda: len(read), lambda looks: looks > seen + 10)
    assert parsed == [bad]
    assert (watched.count("refused"), watched.taken) == (1, [])


async def test_going_back_to_the_text_in_force_ends_the_refusal(watched: Watched) -> None:
    """Nothing is taken anew, and nothing is degraded any more."""
    watched.write("no policy")
    await eventually("it is refused", lambda: watched.file.refused)
    assert not watched.file.check().probe()[0]
    watched.write(HEAD)
    await eventually("it is good again", lambda: not watched.file.refused)
    assert (watched.file.check().probe()[0], watched.taken, watched.count("taken")) == (True, [], 0)


async def test_a_file_that_is_gone_leaves_the_last_good_policy(watched: Watched) -> None:
    """As when a ConfigMap is deleted; the same text again is no change."""
    watched.path.unlink()
    await eventually("it is said", lambda: "cannot be read" in watched.file.refused)
    watched.write(HEAD)
    await eventually("it is good again", lambda: not watched.file.refused)
    assert watched.taken == []


async def test_a_bug_of_ours_refuses_the_version_and_nothing_else(watched: Watched) -> None:
    """Else one document would end every replica within a second; the next version is tried as any other."""
    before = watched.file.policy
    watched.broken = True
    watched.write(HEAD + "mode: shadow\n")
    await eventually("it is refused", lambda: "bug in Leadsman" in watched.file.refused)
    assert watched.file.policy is before
    watched.broken = False
    watched.write(HEAD + "mode: shadow\nrules: []\n")
    await eventually("the next one is taken", lambda: watched.taken)
    assert (watched.file.refused, watched.count("taken")) == ("", 1)


def test_at_the_start_a_bad_file_is_an_error(tmp_path: Path) -> None:
    """There is nothing to go on with."""
    path = tmp_path / "policy.yaml"
    path.write_text("kind: SchedulingPolicy\n")
    with pytest.raises(DocumentError, match="missing key apiVersion"):
        PolicyFile(path, clock=FakeClock(), registry=CollectorRegistry())
