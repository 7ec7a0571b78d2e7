"""Options are parsed strictly and explained when wrong."""

import click
import pytest
from click.testing import CliRunner

from leadsman.runtime.options import Address, AddressType, DurationType, common_options, context_settings


@click.command(context_settings=context_settings("health-collector"))
@common_options
@click.option("--listen", type=AddressType(), default="127.0.0.1:8099", show_envvar=True)
@click.option("--period", type=DurationType(), default="10s", show_envvar=True)
def command(listen: Address, period: float, **others: object) -> None:
    """Print what was understood."""
    click.echo(f"{listen} {period} {others['nats_urls']}")


def run(*arguments: str, **environment: str) -> tuple[int, str]:
    """Exit code and output of the command."""
    result = CliRunner().invoke(command, list(arguments), env=environment)
    return result.exit_code, result.output.strip()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":80", "0.0.0.0:80"),
        ("localhost:0", "localhost:0"),
        ("[::1]:8099", "[::1]:8099"),
        ("10.0.0.1:65535", "10.0.0.1:65535"),
    ],
)
def test_addresses(text: str, address: str) -> None:
    """Hosts, IPv6 in brackets, every address, and port 0."""
    assert run("--listen", text)[1].startswith(f"{address} ")


@pytest.mark.parametrize("text", ["8099", "host:", "host:port", "host:65536", ""])
def test_a_wrong_address_is_explained(text: str) -> None:
    """The message says what an address looks like."""
    code, output = run("--listen", text)
    assert code == 2
    assert "HOST:PORT" in output


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("30s", 30.0), ("1m30s", 90.0), ("1h", 3600.0), ("0.5s", 0.5)]
)
def test_durations(text: str, seconds: float) -> None:
    """Durations as Kubernetes users write them."""
    assert f" {seconds} " in run("--period", text)[1]


@pytest.mark.parametrize("text", ["10", "s", "-1s", "10 s", "1d"])
def test_a_wrong_duration_is_explained(text: str) -> None:
    """A number without a unit is refused rather than guessed."""
    code, output = run("--period", text)
    assert code == 2
    assert "is not a duration" in output


def test_every_option_has_an_environment_variable() -> None:
    """A flag beats its variable, and the variable beats the default."""
    assert run(LEADSMAN_HEALTH_COLLECTOR_PERIOD="3s")[1].split()[1] == "3.0"
    assert run("--period", "4s", LEADSMAN_HEALTH_COLLECTOR_PERIOD="3s")[1].split()[1] == "4.0"
    assert "LEADSMAN_HEALTH_COLLECTOR_NATS_URL" in run("--help")[1]
