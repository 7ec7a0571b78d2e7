"""etcd, kube-apiserver and kube-controller-manager as one thing to start and stop."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from leadsman.testing.process import Process, stop_all
from leadsman.testing.sockets import free_ports
from leadsman.testing.waiting import wait_for
from leadsman_e2e import commands
from leadsman_e2e.api import Api
from leadsman_e2e.credentials import (
    Identity,
    service_account_user,
    write_kubeconfig,
    write_token_file,
)
from leadsman_e2e.health import health

START_TIMEOUT_SECONDS = 60.0
# Short: no data outlives the test, and one that is still starting ignores SIGTERM anyway.
STOP_GRACE_SECONDS = 2.0


class ControlPlane:
    """A running control plane. Make one with `start`; end it with `stop` or a `with` block."""

    def __init__(self, bin_dir: Path, workdir: Path, identities: Iterable[tuple[str, str]]) -> None:
        self.bin_dir = bin_dir
        self.workdir = workdir
        self.processes: list[Process] = []
        self._admin = Identity("e2e-admin", ("system:masters",))
        # The name the built-in roles of a scheduler are bound to.
        self._scheduler = Identity("system:kube-scheduler")
        self._accounts = [Identity.service_account(*pair) for pair in identities]
        etcd, etcd_peer, secure, self._controller_port = free_ports(4)
        self._etcd_url = f"http://127.0.0.1:{etcd}"
        self._etcd_peer_url = f"http://127.0.0.1:{etcd_peer}"
        self._secure_port = secure
        self._certificates = workdir / "apiserver"

    @classmethod
    def start(cls, bin_dir: Path, workdir: Path, identities: Iterable[tuple[str, str]] = ()) -> ControlPlane:
        """Start all three processes and wait until they serve.

        `identities` are the (namespace, name) pairs of service accounts that get a kubeconfig;
        they have no rights but those given by RBAC objects. Raises ProcessEndedError or NotInTimeError.
        """
        plane = cls(bin_dir, workdir, identities)
        try:
            plane._start()
        except BaseException:
            plane.stop()
            raise
        return plane

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return f"https://127.0.0.1:{self._secure_port}"

    @property
    def token(self) -> str:
        """The bearer token of an administrator."""
        return self._admin.token

    @property
    def ca(self) -> Path:
        """The file with the authority that signed the API server's certificate."""
        return self._certificates / "apiserver.crt"

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig with all rights."""
        return self._kubeconfig_path(self._admin)

    @property
    def scheduler_kubeconfig(self) -> Path:
        """A kubeconfig with the rights every cluster gives its kube-scheduler."""
        return self._kubeconfig_path(self._scheduler)

    @property
    def api(self) -> Api:
        """A client with all rights."""
        return Api(self.server, self.token, self.ca)

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """The kubeconfig of a service account. Raises KeyError when `start` was not told of it."""
        user = service_account_user(namespace, name)
        for identity in self._accounts:
            if identity.user == user:
                return self._kubeconfig_path(identity)
        raise KeyError(f"{user} is unknown: pass {(namespace, name)} to ControlPlane.start")

    def stop(self) -> None:
        """End all processes and drop etcd's data; logs stay. Harmless when already stopped."""
        stop_all(list(reversed(self.processes)), STOP_GRACE_SECONDS)
        self.processes.clear()
        shutil.rmtree(self.workdir / "etcd", ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self) -> None:
        self.workdir.mkdir(parents=True, exist_ok=True)
        self._certificates.mkdir(exist_ok=True)
        identities = [self._admin, self._scheduler, *self._accounts]
        tokens = self.workdir / "tokens.csv"
        write_token_file(tokens, identities)
        for identity in identities:
            path = self._kubeconfig_path(identity)
            write_kubeconfig(path, server=self.server, ca=self.ca, identity=identity)
        etcd = commands.etcd(self.bin_dir, self.workdir / "etcd", self._etcd_url, self._etcd_peer_url)
        self._launch("etcd", etcd)
        self._launch("kube-apiserver", self._apiserver_command(tokens))
        self._launch_controllers()
        self._await_ready("kube-apiserver", self._secure_port, "/readyz")
        self._await_ready("kube-controller-manager", self._controller_port, "/healthz")

    def _launch_controllers(self) -> None:
        # It needs the certificate, which the API server writes first of all; it then waits for
        # the API server by itself, so both warm up together.
        wait_for("kube-apiserver writes its certificate", self._certificate_written)
        command = commands.controller_manager(self.bin_dir, self._controller_port, self.kubeconfig, self._certificates)
        self._launch("kube-controller-manager", command)

    def _certificate_written(self) -> bool:
        self._check_alive()
        return self.ca.exists() and (self._certificates / "apiserver.key").exists()

    def _apiserver_command(self, tokens: Path) -> list[str]:
        return commands.apiserver(
            self.bin_dir,
            etcd_url=self._etcd_url,
            port=self._secure_port,
            certificates=self._certificates,
            tokens=tokens,
        )

    def _launch(self, name: str, command: list[str]) -> None:
        self.processes.append(Process.start(name, command, self.workdir / f"{name}.log"))

    def _check_alive(self) -> None:
        for process in self.processes:
            process.check_alive()

    def _await_ready(self, name: str, port: int, path: str) -> None:
        def ready() -> str:
            self._check_alive()
            return health(port, path)

        description = f"{name} is ready (log: {self.workdir / name}.log)"
        wait_for(description, ready, lambda text: text == "ok", within_s=START_TIMEOUT_SECONDS)

    def _kubeconfig_path(self, identity: Identity) -> Path:
        return self.workdir / f"{identity.file_name}.kubeconfig"
