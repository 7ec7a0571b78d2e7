"""What a run needs beside Leadsman: the Go extender, the load generator and the request bodies, built once and cached.

Everything lands in `<cache>/bench/<key>` in one move; the key changes with every source and compiler it depends on.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from leadsman_bench.payloads import write_bodies

BENCH = Path(__file__).resolve().parent.parent
GO_MINIMUM = (1, 25)
GO_NEW_JSON = (1, 27)
"""From this version on encoding/json runs on the engine of encoding/json/v2 by itself; 1.25 has it on request."""

_SOURCES = (
    "extender/*.go",
    "extender/go.mod",
    "loadgen/*.c",
    "leadsman_bench/*_objects.py",
    "leadsman_bench/payloads.py",
)


class MissingToolError(Exception):
    """A compiler is missing or too old; the message says which and what to do, in one sentence."""


class BuildError(Exception):
    """A compiler has failed; the message has what it said."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The compilers: their paths, and what they call themselves."""

    go: str
    go_version: str
    cc: str
    cc_version: str

    @property
    def go_experiment(self) -> str:
        """GOEXPERIMENT for the faster JSON engine of newer Go: a fair opponent today is built with it."""
        return "" if _parse_go(self.go_version) >= GO_NEW_JSON else "jsonv2"


@dataclass(frozen=True, slots=True)
class Artefacts:
    """Where the built parts are."""

    folder: Path

    @property
    def extender(self) -> Path:
        """The Go extender."""
        return self.folder / "extender"

    @property
    def loadgen(self) -> Path:
        """The load generator."""
        return self.folder / "loadgen"

    @property
    def bodies(self) -> Path:
        """The folder of request bodies."""
        return self.folder / "bodies"


def find_toolchain() -> Toolchain:
    """The compilers on PATH.

    Raises:
        MissingToolError: one is missing, or Go is too old.
    """
    go = shutil.which("go")
    if go is None:
        raise MissingToolError(f"Go is not on PATH: install Go {_dotted(GO_MINIMUM)} or later for the opponent.")
    cc = shutil.which(os.environ.get("CC") or "cc") or shutil.which("gcc")
    if cc is None:
        raise MissingToolError("A C compiler is not on PATH: install gcc or clang for the load generator.")
    version = _first_line([go, "env", "GOVERSION"])
    if _parse_go(version) < GO_MINIMUM:
        raise MissingToolError(f"{go} is {version}: install Go {_dotted(GO_MINIMUM)} or later for the opponent.")
    return Toolchain(go, version, cc, _first_line([cc, "--version"]))


def provide(toolchain: Toolchain, environ: Mapping[str, str]) -> Artefacts:
    """The built parts, made now if the cache does not have them.

    Raises:
        BuildError: a compiler failed.
    """
    root = _cache_root(environ)
    folder = root / _key(toolchain)
    if not folder.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(dir=root, prefix=".partial-"))
        try:
            _build(toolchain, partial)
            _move_into_place(partial, folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return Artefacts(folder)


def _build(toolchain: Toolchain, folder: Path) -> None:
    report(f"building the Go extender with {toolchain.go_version} (half a minute the first time)")
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOWORK": "off",
        "GOFLAGS": "-trimpath -buildvcs=false",
        "GOEXPERIMENT": toolchain.go_experiment,
    }
    _run([toolchain.go, "build", "-o", str(folder / "extender"), "."], BENCH / "extender", environment)
    report("building the load generator")
    source = str(BENCH / "loadgen" / "loadgen.c")
    _run([toolchain.cc, "-O2", "-pthread", "-o", str(folder / "loadgen"), source], BENCH, os.environ)
    report("making the request bodies")
    (folder / "bodies").mkdir()
    write_bodies(folder / "bodies")


def _move_into_place(partial: Path, folder: Path) -> None:
    try:
        partial.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another run was faster
            raise


def _run(command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"`{' '.join(command)}` failed in {folder}:\n{done.stdout}{done.stderr}".rstrip())


def _cache_root(environ: Mapping[str, str]) -> Path:
    own = environ.get("LEADSMAN_CACHE_DIR")
    base = environ.get("XDG_CACHE_HOME") or "~/.cache"
    root = Path(own) if own else Path(base) / "leadsman"
    return root.expanduser().resolve() / "bench"


def _key(toolchain: Toolchain) -> str:
    digest = hashlib.sha256(f"{toolchain.go_version}\n{toolchain.cc_version}\n{os.uname().machine}\n".encode())
    for pattern in _SOURCES:
        for source in sorted(BENCH.glob(pattern)):
            digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


def _first_line(command: list[str]) -> str:
    done = subprocess.run(command, cwd=BENCH / "extender", capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).strip().split("\n", 1)[0]


def _parse_go(version: str) -> tuple[int, int]:
    found = re.search(r"(\d+)\.(\d+)", version)
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def report(line: str) -> None:
    """Print one progress line to stderr."""
    print(f"bench: {line}", file=sys.stderr, flush=True)
