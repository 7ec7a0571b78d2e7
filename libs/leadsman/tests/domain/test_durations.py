"""Durations round trip between what people write and seconds."""

import pytest

from leadsman.domain.durations import format_duration, parse_duration
from leadsman.domain.errors import ConfigError


@pytest.mark.parametrize(("text", "seconds"), [("250ms", 0.25), ("1h30m", 5400.0), ("90s", 90.0)])
def test_parse(text: str, seconds: float) -> None:
    """Parts add up."""
    assert parse_duration(text) == pytest.approx(seconds)


def test_a_bare_number_is_refused() -> None:
    """Nobody should have to guess the unit."""
    with pytest.raises(ConfigError, match="'30' is not a duration"):
        parse_duration("30")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.25, "250ms"), (12.3, "12s"), (119, "119s"), (180, "3m"), (7200, "2h")]
)
def test_format(seconds: float, text: str) -> None:
    """Texts for people are short."""
    assert format_duration(seconds) == text
