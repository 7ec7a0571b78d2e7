"""Tell whoever started a service which ports it listens on, when it was asked to choose free ones."""

from pathlib import Path

import orjson


def write_ports(file: Path, ports: dict[str, int]) -> None:
    """Write the ports in use to `file` as JSON, whole or not at all."""
    part = file.with_name(f"{file.name}.part")
    part.write_bytes(orjson.dumps(ports))
    part.replace(file)
