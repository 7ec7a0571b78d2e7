"""What operators can set, and what is refused."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from leadsman.domain.errors import ConfigError
from leadsman_health_collector.__main__ import main, run
from leadsman_health_collector.settings import LookSettings


def settings(period_s: float, deadline_s: float) -> LookSettings:
    return LookSettings(Path("/k"), Path("/m"), None, period_s, deadline_s)


def test_the_help_tells_every_option_and_its_variable():
    """It is the reference."""
    text = CliRunner().invoke(main, ["run", "--help"]).output
    for name in (
        "kubelet-dir",
        "mountinfo",
        "state-file",
        "config",
        "period",
        "probe-deadline",
        "heartbeat",
        "nats-url",
    ):
        assert f"--{name}" in text
    assert "LEADSMAN_HEALTH_COLLECTOR_KUBELET_DIR" in text


def test_the_state_is_kept_by_default():
    """A restart must not turn a bad node good with the options that nobody has touched."""
    default = next(option.default for option in run.params if option.name == "state_file")
    assert default == Path("/var/run/leadsman/health-collector/state.json")


def test_mounts_have_more_time_than_sockets_and_never_more_than_their_period():
    """5 s with the defaults."""
    usual = settings(10.0, 3.0)
    assert usual.mount_deadline_s == 5.0
    assert settings(1.0, 1.0).mount_deadline_s == 0.9


@pytest.mark.parametrize(("period_s", "deadline_s"), [(1.0, 2.0), (1.0, 0.0)])
def test_a_deadline_that_cannot_be_kept_is_refused(period_s, deadline_s):
    """Looks would overlap, or none would ever be good."""
    with pytest.raises(ConfigError, match="lower --probe-deadline or raise --period"):
        settings(period_s, deadline_s)
