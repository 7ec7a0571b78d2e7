"""kube-scheduler as a process, started from the configuration file a user would deploy."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import yaml

from leadsman.testing.process import Process
from leadsman.testing.sockets import free_ports
from leadsman_e2e import commands
from leadsman_e2e.health import health, page
from leadsman_e2e.plane import ControlPlane


def render_scheduler_config(
    template: Path,
    *,
    url_prefix: str,
    kubeconfig: Path,
    out: Path,
    ignorable: bool | None = None,
    http_timeout: str | None = None,
) -> Path:
    """Write `template` to `out` with what depends on the place it runs in replaced.

    That is the kubeconfig, the URL of every extender and leader election (off: the test's user has
    no lease to hold); `ignorable` and `http_timeout` (as in "500ms") only when given. Everything
    else stays as shipped, so that a mistake in it fails a test. Raises ValueError when the template
    is no scheduler configuration with an extender.
    """
    config = yaml.safe_load(template.read_text(encoding="utf-8"))
    if not isinstance(config, dict) or config.get("kind") != "KubeSchedulerConfiguration":
        raise ValueError(f"{template} is no KubeSchedulerConfiguration: check its kind")
    if not config.get("extenders"):
        raise ValueError(f"{template} has no extenders: a scheduler without them tests nothing")
    config.setdefault("clientConnection", {})["kubeconfig"] = str(kubeconfig)
    config["leaderElection"] = {"leaderElect": False}
    for extender in config["extenders"]:
        extender["urlPrefix"] = url_prefix
        if ignorable is not None:
            extender["ignorable"] = ignorable
        if http_timeout is not None:
            extender["httpTimeout"] = http_timeout
    out.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    return out


class Scheduler:
    """A running kube-scheduler. Several may run side by side under different scheduler names."""

    def __init__(self, process: Process, port: int, token: str) -> None:
        self.process = process
        self._port = port
        self._token = token

    @classmethod
    def start(cls, plane: ControlPlane, config_path: Path) -> Scheduler:
        """Start it and wait until its caches are filled. Raises ProcessEndedError or NotInTimeError."""
        (port,) = free_ports(1)
        workdir = plane.workdir / f"kube-scheduler-{port}"
        workdir.mkdir()
        command = commands.scheduler(
            plane.bin_dir,
            config=config_path,
            port=port,
            kubeconfig=plane.scheduler_kubeconfig,
            certificates=workdir,
        )
        process = Process.start("kube-scheduler", command, workdir / "kube-scheduler.log")
        scheduler = cls(process, port, plane.token)
        try:
            scheduler._await_ready()
        except BaseException:
            scheduler.stop()
            raise
        return scheduler

    @property
    def log(self) -> Path:
        """The file it logs to, at verbosity 2."""
        return self.process.log

    def metrics(self) -> str:
        """Its metrics in the Prometheus text format."""
        return page(self._port, "/metrics", self._token)

    def stop(self) -> None:
        """End it. Harmless when already stopped."""
        self.process.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _await_ready(self) -> None:
        self.process.wait_for(
            f"kube-scheduler is ready (log: {self.log})",
            lambda: health(self._port, "/readyz"),
            "ok".__eq__,
        )
