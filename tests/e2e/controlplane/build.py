"""Provide the Kubernetes binaries that the e2e tests run on.

Builds etcd, kube-scheduler, kube-apiserver and kube-controller-manager from the Go modules pinned
by the go.mod files next to this script, unless the cache already has them. Progress goes to
stderr; the last (and only) line on stdout is the directory that holds the binaries.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

HERE = Path(__file__).resolve().parent
KUBERNETES_MODULE = "k8s.io/kubernetes"
LOCK_FILES = ("go.mod", "go.sum", "etcd/go.mod", "etcd/go.sum")
VERSION_PACKAGE = "k8s.io/component-base/version"
HEARTBEAT_SECONDS = 20.0

EPILOG = """\
environment:
  KUBE_BIN_DIR        a directory that already has kube-apiserver, kube-controller-manager and
                      kube-scheduler (a release download, say); nothing is built then. etcd is
                      taken from there too, or else from PATH.
  LEADSMAN_CACHE_DIR  where built binaries are kept; default ${XDG_CACHE_HOME:-~/.cache}/leadsman

The binaries land in <cache>/controlplane/<key>; the key changes with the pinned modules, the Go
version and the platform. A first build takes several minutes and needs Go and its module proxy.
"""


class BuildError(Exception):
    """The binaries cannot be provided; the message says which and what to do."""


@dataclass(frozen=True, slots=True)
class Target:
    """One binary: its file name, the folder of its go.mod (relative) and its main package."""

    name: str
    module_dir: str
    package: str


# etcd first: it is done in half a minute and tells early whether Go and its proxy work.
TARGETS = (
    Target("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
    Target("kube-scheduler", ".", f"{KUBERNETES_MODULE}/cmd/kube-scheduler"),
    Target("kube-apiserver", ".", f"{KUBERNETES_MODULE}/cmd/kube-apiserver"),
    Target("kube-controller-manager", ".", f"{KUBERNETES_MODULE}/cmd/kube-controller-manager"),
)
KUBERNETES_NAMES = tuple(target.name for target in TARGETS if target.name != "etcd")


def report(line: str) -> None:
    """Print one progress line."""
    print(f"control plane: {line}", file=sys.stderr, flush=True)


def is_executable(path: Path) -> bool:
    """Whether `path` is a file this user may run."""
    return path.is_file() and os.access(path, os.X_OK)


def check_given_directory(directory: Path) -> Path:
    """The directory KUBE_BIN_DIR names, once it is known to have every binary.

    Raises BuildError naming the first missing file.
    """
    for name in KUBERNETES_NAMES:
        if not is_executable(directory / name):
            raise BuildError(
                f"{directory / name} is missing or not executable: KUBE_BIN_DIR must name a "
                f"directory with {', '.join(KUBERNETES_NAMES)}; put it there, or unset "
                "KUBE_BIN_DIR to have the binaries built"
            )
    if not is_executable(directory / "etcd") and shutil.which("etcd") is None:
        raise BuildError(
            f"{directory / 'etcd'} is missing and there is no etcd on PATH: put etcd into "
            "KUBE_BIN_DIR or install it, or unset KUBE_BIN_DIR to have all binaries built"
        )
    return directory.resolve()


def cache_root(environ: Mapping[str, str]) -> Path:
    """The folder below which built binaries are kept, outside any source tree."""
    own = environ.get("LEADSMAN_CACHE_DIR")
    base = environ.get("XDG_CACHE_HOME") or "~/.cache"
    root = Path(own) if own else Path(base) / "leadsman"
    return root.expanduser().resolve() / "controlplane"


def find_go() -> str:
    """The path of the go command. Raises BuildError when there is none."""
    go = shutil.which("go")
    if go is None:
        required = pinned(r"^go (\S+)$")
        raise BuildError(
            f"Go is not on PATH: install Go {required} or later, or set KUBE_BIN_DIR to a "
            f"directory that has {', '.join(KUBERNETES_NAMES)} and etcd"
        )
    return go


def pinned(pattern: str) -> str:
    """The first group of `pattern` in our go.mod. Raises BuildError when it has no such line."""
    text = (HERE / "go.mod").read_text(encoding="utf-8")
    found = re.search(pattern, text, flags=re.MULTILINE)
    if found is None:
        raise BuildError(f"{HERE / 'go.mod'} has no line that matches {pattern!r}: restore it")
    return found.group(1)


def linker_flags() -> str:
    """Strip the binaries and tell the Kubernetes ones their version.

    Unstamped they call themselves v0.0.0-master, which clients and feature gates trip over.
    """
    version = pinned(rf"{re.escape(KUBERNETES_MODULE)} (v\d+\.\d+\.\d+)")
    major, minor, _ = version.removeprefix("v").split(".")
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s -w", *(f"-X {VERSION_PACKAGE}.{name}={value}" for name, value in stamps.items())])


def build_environment() -> dict[str, str]:
    """The environment of every go command: static binaries, no workspace of the caller's."""
    return {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}


def toolchain(go: str) -> str:
    """Go version and platform as one line. Raises BuildError when go itself fails."""
    run = subprocess.run(
        [go, "env", "GOVERSION", "GOOS", "GOARCH"],
        cwd=HERE,
        env=build_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode != 0:
        raise BuildError(f"`{go} env` failed in {HERE}: {run.stderr.strip()}")
    return " ".join(run.stdout.split())


def cache_key(toolchain_line: str) -> str:
    """A short name for everything that decides what the binaries contain."""
    digest = hashlib.sha256(f"{toolchain_line}\n{linker_flags()}\n".encode())
    for name in LOCK_FILES:
        digest.update(hashlib.sha256((HERE / name).read_bytes()).digest())
    return digest.hexdigest()[:16]


@contextlib.contextmanager
def exclusive(lock_path: Path) -> Iterator[None]:
    """Hold the lock file; a second run waits here. The kernel drops it when a process dies."""
    lock_path.parent.mkdir(parents=True, exist_ok=True)
    with lock_path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"waiting for another build that holds {lock_path}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run_build(name: str, command: list[str], cwd: Path) -> None:
    """Run one go build with a sign of life now and then. Raises BuildError when it fails."""
    started = time.monotonic()
    # Its own process group, so that the compilers below it end with it when we are interrupted.
    process = subprocess.Popen(command, cwd=cwd, env=build_environment(), stdout=sys.stderr, start_new_session=True)
    try:
        while True:
            try:
                status = process.wait(timeout=HEARTBEAT_SECONDS)
                break
            except subprocess.TimeoutExpired:
                report(f"{name}: building, {time.monotonic() - started:.0f} s so far")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
    if status != 0:
        raise BuildError(
            f"building {name} failed with status {status} (output above): "
            f"run `{' '.join(command[:2])}` in {cwd} to see it alone, or set KUBE_BIN_DIR"
        )
    report(f"{name}: built in {time.monotonic() - started:.0f} s")


def build_target(go: str, target: Target, directory: Path) -> None:
    """Build one binary under a temporary name and move it into place whole."""
    partial = directory / f".{target.name}.partial"
    flags = ["-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", linker_flags()]
    command = [go, "build", *flags, "-o", str(partial), target.package]
    report(f"{target.name}: building {target.package}")
    try:
        run_build(target.name, command, HERE / target.module_dir)
        partial.replace(directory / target.name)
    finally:
        partial.unlink(missing_ok=True)


def provide(environ: Mapping[str, str]) -> Path:
    """The directory with all binaries, built now if need be. Raises BuildError."""
    given = environ.get("KUBE_BIN_DIR")
    if given:
        return check_given_directory(Path(given).expanduser())
    go = find_go()
    key = cache_key(toolchain(go))
    directory = cache_root(environ) / key
    started = time.monotonic()
    with exclusive(directory.parent / f"{key}.lock"):
        directory.mkdir(parents=True, exist_ok=True)
        missing = [target for target in TARGETS if not is_executable(directory / target.name)]
        for target in missing:
            build_target(go, target, directory)
    if missing:
        report(f"{len(missing)} built in {time.monotonic() - started:.0f} s into {directory}")
    return directory


def stop_on_sigterm() -> None:
    """Turn SIGTERM into an exit that still cleans up, as Ctrl-C does."""

    def leave(signum: int, _frame: object) -> NoReturn:
        raise SystemExit(128 + signum)

    signal.signal(signal.SIGTERM, leave)


def main() -> int:
    """Entry point; the exit status is 1 when the binaries cannot be provided."""
    argparse.ArgumentParser(
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args()
    stop_on_sigterm()
    try:
        directory = provide(os.environ)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("error: interrupted; run it again to go on where it stopped", file=sys.stderr)
        return 130
    print(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
