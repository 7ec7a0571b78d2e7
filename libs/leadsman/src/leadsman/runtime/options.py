"""Command-line options that every service has, with the same names, defaults and environment variables."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from leadsman.domain.durations import parse_duration
from leadsman.domain.errors import ConfigError
from leadsman.telemetry.logs import LogFormat, configure_logs
from leadsman.telemetry.version import version

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port; port 0 asks for a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class AddressType(click.ParamType[Address]):
    """`HOST:PORT`, `[IPV6]:PORT`, or `:PORT` for every address."""

    name = "host:port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:  # noqa: ANN401
        """Parse `value`."""
        if isinstance(value, Address):
            return value
        host, colon, port = str(value).rpartition(":")
        if not colon or not port.isdigit() or int(port) > 65535:
            self.fail(f"{value!r} is not HOST:PORT, for example 127.0.0.1:8080", param, ctx)
        return Address(host.strip("[]") or "0.0.0.0", int(port))


class DurationType(click.ParamType[float]):
    """A duration such as `500ms`, `30s` or `5m`, given to the program in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401
        """Parse `value`."""
        if isinstance(value, float):
            return value
        try:
            return parse_duration(str(value))
        except ConfigError as error:
            self.fail(str(error), param, ctx)


def context_settings(service: str) -> dict[str, Any]:
    """Click settings: wide help with defaults, and `LEADSMAN_<SERVICE>_<OPTION>` for every option."""
    return {
        "auto_envvar_prefix": f"LEADSMAN_{service.upper().replace('-', '_')}",
        "help_option_names": ["-h", "--help"],
        "show_default": True,
        "max_content_width": 110,
    }


def common_options(command: F) -> F:
    """Add --nats-url, --nats-creds, --log-level, --log-format, --version and, hidden, --port-file."""
    for option in reversed(
        [
            click.option(
                "--nats-url",
                "nats_urls",
                multiple=True,
                default=("nats://127.0.0.1:4222",),
                show_envvar=True,
                help="NATS server; give it several times for a cluster.",
            ),
            click.option(
                "--nats-creds",
                type=click.Path(dir_okay=False),
                show_envvar=True,
                help="NATS credentials file (.creds); read again at every connect.",
            ),
            click.option(
                "--log-level",
                type=click.Choice(["debug", "info", "warning", "error"]),
                default="info",
                show_envvar=True,
                help="Least severe log line to write.",
            ),
            click.option(
                "--log-format",
                type=click.Choice(["auto", "json", "console"]),
                default="auto",
                show_envvar=True,
                help="JSON lines or text; auto: text on a terminal.",
            ),
            click.option(
                "--port-file",
                type=click.Path(dir_okay=False, path_type=Path),
                hidden=True,
                help="Write the ports in use to this file as JSON, for whoever asked for port 0.",
            ),
            click.version_option(version(), prog_name="leadsman"),
        ]
    ):
        command = option(command)
    return command


def start_logs(log_level: str, log_format: LogFormat) -> None:
    """Configure logging from the values of `common_options`."""
    configure_logs(log_level, log_format)
