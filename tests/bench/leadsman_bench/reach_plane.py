"""The cluster's side of the reach benchmark, `python -m leadsman_bench.reach_plane`: API server and gateway.

The API server double knows the node, its CSINode and the CSIDrivers, and is reached as from a pod: over TLS, with a
token and an authority where the kubelet mounts them. Every 30 s the list of backends goes out on the bus, as from a
gateway.
"""

import argparse
import asyncio
import contextlib
import json
import ssl
from pathlib import Path

import nats

from leadsman.bus.subjects import BACKENDS
from leadsman.kube.api import SERVICE_ACCOUNT
from leadsman.testing.kube_api import FakeApi
from leadsman.wire.notices import Backend, BackendList, encode_notice
from leadsman_bench.reach_volumes import mount, run
from leadsman_bench.reach_world import DRIVERS, NODE

ANNOUNCE_S = 30.0
_CHUNK = 1 << 16


def backend_list() -> BackendList:
    """The cluster's volumes as a gateway sees them; of these backends the collector has the addresses configured."""
    known = {(driver.name, server.backend) for driver in DRIVERS for server in driver.servers}
    return BackendList([Backend(driver, backend, [f"{backend}:2049"]) for driver, backend in sorted(known)])


async def fill(api: FakeApi) -> None:
    """Give `api` the objects that a collector reads."""
    labels = {"kubernetes.io/hostname": NODE, "topology.kubernetes.io/zone": "zone-1", "kubernetes.io/os": "linux"}
    drivers = [{"name": driver.name, "nodeID": NODE} for driver in DRIVERS]
    await api.put("nodes", {"metadata": {"name": NODE, "uid": "reach", "labels": labels}, "status": {}})
    await api.put("csinodes", {"metadata": {"name": NODE}, "spec": {"drivers": drivers}})
    for driver in DRIVERS:
        await api.put("csidrivers", {"metadata": {"name": driver.name}, "spec": {}})


def make_credentials(folder: Path, token: str) -> ssl.SSLContext:
    """Put a pod's credentials where they belong, in our mount namespace only; the server's side of TLS."""
    key, certificate = folder / "api.key", folder / "api.crt"
    run(
        *("openssl", "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
        *("-days", "2", "-subj", "/CN=reach", "-addext", "subjectAltName=IP:127.0.0.1"),
        *("-keyout", str(key), "-out", str(certificate)),
    )
    mount("-t", "tmpfs", "tmpfs", "/run")  # nothing of the machine's own is written
    SERVICE_ACCOUNT.mkdir(parents=True)
    (SERVICE_ACCOUNT / "token").write_text(token, encoding="ascii")
    (SERVICE_ACCOUNT / "ca.crt").write_bytes(certificate.read_bytes())
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    return context


class TlsFront:
    """Passes on what comes over TLS to `port` on this machine, and what is answered."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def listen(self, context: ssl.SSLContext) -> int:
        """Listen on a port of its own, which is returned."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        return int(server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind = await asyncio.open_connection("127.0.0.1", self._port)
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await asyncio.gather(_pump(reader, behind[1]), _pump(behind[0], writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
    finally:
        writer.close()


async def serve(nats_url: str, folder: Path) -> None:
    """Serve until killed; `plane.json` in `folder` tells the port once all is there."""
    async with FakeApi() as api:
        await fill(api)
        port = await TlsFront(api.port).listen(make_credentials(folder, api.token))
        client = await nats.connect(nats_url)
        part = folder / "plane.part"
        part.write_text(json.dumps({"https": port}), encoding="ascii")
        part.replace(folder / "plane.json")
        while True:
            await client.publish(BACKENDS, encode_notice(backend_list()))
            await asyncio.sleep(ANNOUNCE_S)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nats-url", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    options = parser.parse_args()
    asyncio.run(serve(options.nats_url, options.folder))


if __name__ == "__main__":
    main()
