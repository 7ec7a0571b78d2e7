"""Command-line options that every service has, with the same names, defaults and environment variables."""

import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from leadsman.domain.durations import parse_duration
from leadsman.domain.errors import ConfigError
from leadsman.telemetry.logs import LogFormat, configure_logs
from leadsman.telemetry.version import version

F = TypeVar("F", bound=Callable[..., Any])

_NATS_SCHEMES = {"nats", "tls", "ws", "wss"}
_HOST = re.compile(r"[\w.:%-]+")


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port; port 0 asks for a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class AddressType(click.ParamType[Address]):
    """`HOST:PORT`, `[IPV6]:PORT`, or `:PORT` for every address of IPv4 and IPv6.

    With `peer` it is another service's address: the host must be named, and the port be a real one.
    """

    name = "host:port"

    def __init__(self, *, peer: bool = False) -> None:
        self._peer = peer

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:  # noqa: ANN401
        """Parse `value`."""
        if isinstance(value, Address):
            return value
        host, colon, port = str(value).rpartition(":")
        if not colon or not port.isdigit() or int(port) > 65535:
            self.fail(f"{value!r} is not HOST:PORT, for example 127.0.0.1:8080", param, ctx)
        host = host.removeprefix("[").removesuffix("]")
        if self._peer and (not host or not int(port)):
            self.fail(f"{value!r} cannot be connected to; name HOST:PORT, for example 127.0.0.1:8080", param, ctx)
        return Address(host or _everywhere(), int(port))


class DurationType(click.ParamType[float]):
    """A duration such as `500ms`, `30s` or `5m`, given to the program in seconds; with `positive` not 0."""

    name = "duration"

    def __init__(self, *, positive: bool = False) -> None:
        self._positive = positive

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401
        """Parse `value`."""
        if isinstance(value, float):
            return value
        try:
            seconds = parse_duration(str(value))
        except ConfigError as error:
            self.fail(str(error), param, ctx)
        if self._positive and not seconds:
            self.fail(f"{value!r} is too short; give more than 0s", param, ctx)
        return seconds


class NatsUrlType(click.ParamType[str]):
    """The address of a NATS server, checked for its form only; the server need not be up."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ANN401
        """Check `value`; the message does not repeat it, because it may hold a password."""
        text = str(value).strip()
        try:
            parts = urlsplit(text if "//" in text else f"nats://{text}")
            fine = parts.scheme in _NATS_SCHEMES and bool(_HOST.fullmatch(parts.hostname or "")) and parts.port != 0
        except ValueError:
            fine = False
        if not fine:
            self.fail("not the address of a NATS server; write it like nats://nats.example:4222", param, ctx)
        return text


def _everywhere() -> str:
    """The host that means every address, on this system."""
    return "::" if socket.has_dualstack_ipv6() else "0.0.0.0"


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
                type=NatsUrlType(),
                default=("nats://127.0.0.1:4222",),
                show_envvar=True,
                help="NATS server; give it several times for a cluster.",
            ),
            click.option(
                "--nats-creds",
                type=click.Path(exists=True, dir_okay=False),
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
