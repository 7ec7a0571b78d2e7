"""What the command line says, checked and in the units the code uses."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from leadsman.bus.connect import BusSettings
from leadsman.runtime.options import Address
from leadsman_gateway.decider import OnFailure

_SIZE = re.compile(r"(\d+)(B|KiB|MiB|GiB)?")
_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """How one gateway runs.

    Exactly one of `manifests`, `kubeconfig` and `in_cluster` says where volumes are known from.
    """

    listen: Address
    url_prefix: str
    filters: tuple[Address, ...]
    scorers: tuple[Address, ...]
    deadline_s: float
    on_failure: OnFailure
    max_body: int
    kubeconfig: Path | None
    in_cluster: bool
    manifests: Path | None
    namespace: str
    wake: bool
    backend_attributes: dict[str, str]
    bus: BusSettings
    port_file: Path | None


class SizeType(click.ParamType[int]):
    """A number of bytes such as `64MiB`, more than 0, given to the program as bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ANN401
        """Parse `value`."""
        if isinstance(value, int):
            return value
        match = _SIZE.fullmatch(str(value).strip())
        if match is None:
            self.fail(f"{value!r} is not a size; write it like 512KiB, 64MiB or 1GiB", param, ctx)
        size = int(match[1]) * _UNITS[match[2] or "B"]
        if not size:
            self.fail(f"{value!r} would refuse everything; give more than 0", param, ctx)
        return size


def parse_attributes(pairs: Iterable[str]) -> dict[str, str]:
    """`DRIVER=ATTRIBUTE` pairs as a mapping.

    Raises:
        click.UsageError: a pair without `=` or with an empty side.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        driver, equals, attribute = pair.partition("=")
        if not driver or not equals or not attribute:
            raise click.UsageError(
                f"--backend-attribute {pair!r} is not DRIVER=ATTRIBUTE, for example nfs.csi.k8s.io=server"
            )
        found[driver] = attribute
    return found


def check_source(options: dict[str, Any]) -> None:
    """Refuse anything but exactly one source of volumes.

    Raises:
        click.UsageError: none or several are given.
    """
    given = [name for name in ("kubeconfig", "in_cluster", "manifests") if options[name]]
    if len(given) != 1:
        raise click.UsageError(
            "say where volumes are known from, once: --in-cluster, --kubeconfig FILE, or --manifests DIR (no cluster)"
        )
