"""Options are parsed strictly and explained when wrong."""

import click
import pytest
from click.testing import CliRunner

from leadsman.runtime.options import Address, AddressType, DurationType, common_options, context_settings


@click.command(context_settings=context_settings("health-collector"))
@common_options
@click.option("--listen", type=AddressType(), default="127.0.0.1:8099", show_envvar=True)
@click.option("--peer", type=AddressType(peer=True), default="filter:9201", show_envvar=True)
@click.option("--limit", type=DurationType(positive=True), default="1s", show_envvar=True)
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
        (":80", "[::]:80"),
        ("0.0.0.0:80", "0.0.0.0:80"),
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


@pytest.mark.parametrize("text", [":9201", "filter:0", "filter"])
def test_address_that_cannot_be_connected_to_is_refused(text: str) -> None:
    """`:PORT` and port 0 are for listening."""
    code, output = run("--peer", text)
    assert code == 2
    assert "HOST:PORT" in output


@pytest.mark.parametrize("text", ["0s", "0ms", "0m0s"])
def test_duration_that_must_not_be_nothing(text: str) -> None:
    """A limit of nothing would disable what it limits; others may be 0."""
    assert run("--limit", text)[0] == 2
    assert "more than 0s" in run("--limit", text)[1]
    assert run("--period", text)[0] == 0


@pytest.mark.parametrize(
    "url", ["nats://a:4222", "a:4222", "a", "tls://user:word@a.example", "wss://[::1]:443", "nats://[fd00::1]:4222"]
)
def test_nats_addresses(url: str) -> None:
    """All that the client can use."""
    assert run("--nats-url", url)[0] == 0


@pytest.mark.parametrize(
    "url", ["notaurl::::", "", "http://a:4222", "nats://", "nats://:4222", "nats://me:secret@a:port", "a,b", "a:0"]
)
def test_wrong_nats_address_is_explained_without_its_secrets(url: str) -> None:
    """At the start, instead of failing to connect for ever."""
    code, output = run("--nats-url", url)
    assert code == 2
    assert "nats://nats.example:4222" in output
    assert "secret" not in output


def test_missing_credentials_file_is_an_error_at_the_start() -> None:
    """Not at every try to connect."""
    code, output = run("--nats-creds", "nothing-here.creds")
    assert code == 2
    assert "nothing-here.creds" in output


def test_every_option_has_an_environment_variable() -> None:
    """A flag beats its variable, and the variable beats the default."""
    assert run(LEADSMAN_HEALTH_COLLECTOR_PERIOD="3s")[1].split()[1] == "3.0"
    assert run("--period", "4s", LEADSMAN_HEALTH_COLLECTOR_PERIOD="3s")[1].split()[1] == "4.0"
    assert "LEADSMAN_HEALTH_COLLECTOR_NATS_URL" in run("--help")[1]
