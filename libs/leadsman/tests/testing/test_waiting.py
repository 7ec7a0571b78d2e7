"""Waiting ends with the first accepted result, or with words about the last one."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from leadsman.testing.waiting import NotInTimeError, eventually, wait_for

Wait = Callable[..., Any]


def _in_a_loop(*arguments: Any, **limits: float) -> Any:
    return asyncio.run(eventually(*arguments, **limits))


@pytest.fixture(params=[wait_for, _in_a_loop], ids=["blocking", "in an event loop"])
def wait(request: pytest.FixtureRequest) -> Wait:
    return request.param


def test_the_first_accepted_result_is_returned(wait: Wait) -> None:
    """Without a condition any true value will do."""
    assert wait("a number", iter([0, 2, 3]).__next__) == 2
    assert wait("three", iter([0, 2, 3]).__next__, (3).__eq__) == 3


def test_the_last_state_is_shown_when_time_is_up(wait: Wait) -> None:
    """Unless it says nothing."""
    with pytest.raises(NotInTimeError, match=r'^not within 10ms: peace; last seen: \{"state": "war"\}$'):
        wait("peace", lambda: {"state": "war"}, lambda _: False, within_s=0.01)
    with pytest.raises(NotInTimeError, match=r"^not within 10ms: peace$"):
        wait("peace", lambda: False, within_s=0.01)


def test_errors_of_the_look_are_passed_on(wait: Wait) -> None:
    """A broken look is not a state."""
    with pytest.raises(StopIteration if wait is wait_for else RuntimeError):
        wait("more", iter([0]).__next__, within_s=5)
