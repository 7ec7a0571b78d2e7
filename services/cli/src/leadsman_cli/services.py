"""How the services of a local pipeline are started, and how to see that they are up."""

from pathlib import Path

import msgspec

from leadsman.testing.nats import nats_server_binary
from leadsman_cli.node import DRIVER, python
from leadsman_cli.supervisor import Child

MANIFESTS = Path(__file__).with_name("demo")
"""All that the gateway of a local pipeline knows of volumes."""


def nats(store: Path, ports: Path) -> tuple[str, ...]:
    """The command that runs nats-server on a free port, which it writes into a file in `ports`.

    Raises:
        NatsServerError: nats-server is not installed.
    """
    return (
        *(nats_server_binary(), "--addr", "127.0.0.1", "--port", "-1"),
        *("--jetstream", "--store_dir", str(store), "--ports_file_dir", str(ports)),
    )


def nats_url(ports: Path, child: Child) -> str:
    """Where the nats-server that runs as `child` listens; empty until it does."""
    try:
        listed = msgspec.json.decode((ports / f"nats-server_{child.pid}.ports").read_bytes(), type=dict[str, list[str]])
    except (OSError, msgspec.DecodeError):  # not there, or not whole yet
        return ""
    return listed["nats"][0]


def hop(name: str, port: int, nats_address: str, policy: Path | None) -> tuple[str, ...]:
    """The command that runs `filter` or `scorer` on `port`, by the document `policy` if there is one."""
    return python(
        f"leadsman_{name}",
        *("--listen", f"127.0.0.1:{port}", "--admin-listen", "127.0.0.1:0"),
        *("--nats-url", nats_address, "--stream-settle", "0s"),  # the stream is ours and new, like the nodes
        *(("--policy", str(policy.absolute())) if policy else ()),
    )


def gateway(port: int, filter_port: int, scorer_port: int, nats_address: str) -> tuple[str, ...]:
    """The command that runs the gateway on `port`, knowing only the volumes of our own manifests."""
    return python(
        "leadsman_gateway",
        *("--listen", f"127.0.0.1:{port}"),
        *("--filter", f"127.0.0.1:{filter_port}", "--scorer", f"127.0.0.1:{scorer_port}"),
        *("--manifests", str(MANIFESTS), "--backend-attribute", f"{DRIVER}=server"),
        *("--no-wake", "--nats-url", nats_address),
    )
