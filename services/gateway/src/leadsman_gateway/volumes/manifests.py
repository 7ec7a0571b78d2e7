"""The volume catalogue without a cluster: a directory of manifests, read again when a file changes."""

import asyncio
import stat
from collections.abc import Iterable
from pathlib import Path

from prometheus_client import CollectorRegistry

from leadsman.domain.errors import ConfigError
from leadsman.telemetry.logs import get_logger
from leadsman_gateway.volumes.catalogue import StoredCatalogue
from leadsman_gateway.volumes.manifest_files import SUFFIXES, Found, ManifestError, read_manifests
from leadsman_gateway.volumes.metrics import CatalogueMetrics
from leadsman_gateway.volumes.objects import RESOURCES
from leadsman_gateway.volumes.records import ObjectRef, Record

log = get_logger("gateway.catalogue")

_Stamp = tuple[int, int, int]


class ManifestCatalogue(StoredCatalogue):
    """Claims, volumes, classes and drivers in the `*.yaml`, `*.yml` and `*.json` files of one directory.

    A file that turns bad keeps the meaning it had before; it is logged, counted and shown on /readyz. When two files
    hold the same object, the file whose name sorts first decides, and that is shown too.
    """

    def __init__(self, directory: Path, *, registry: CollectorRegistry, poll_s: float = 1.0) -> None:
        super().__init__()
        self._directory = directory
        self._poll_s = poll_s
        self._metrics = CatalogueMetrics(registry)
        self._stamps: dict[Path, _Stamp] = {}
        self._found: dict[Path, Found] = {}
        self._problems: dict[Path, str] = {}
        self._duplicates: tuple[str, ...] = ()
        self._scanning = asyncio.Lock()
        self.synced = False

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with the directory now, one sentence each."""
        return (*self._problems.values(), *self._duplicates)

    async def run(self) -> None:
        """See `Catalogue.run`.

        Raises:
            ConfigError: there is no such directory.
        """
        if not self._directory.is_dir():
            raise ConfigError(f"{self._directory}: no such directory; name one that holds manifests, or use a cluster")
        while True:
            await self._scan()
            await asyncio.sleep(self._poll_s)

    async def fetch(self, refs: Iterable[ObjectRef]) -> bool:
        """See `Catalogue.fetch`; looks at the files now instead of at the next poll."""
        before = self.generation
        if any(True for _ in refs):
            await self._scan()
        return self.generation != before

    def describe(self) -> tuple[bool, str]:
        """See `Catalogue.describe`."""
        if self.problems:
            return False, "; ".join(self.problems)
        counts = ", ".join(f"{self._store.count(kind)} {resource.plural}" for kind, resource in RESOURCES.items())
        return self.synced, counts if self.synced else "manifests not read yet"

    async def _scan(self) -> None:
        async with self._scanning:
            # In a thread: a big directory takes long to parse, and a slow disk must not stop decisions.
            try:
                stamps = await asyncio.to_thread(_stamp, self._directory)
            except OSError as error:
                self._problem(self._directory, f"{self._directory} cannot be listed: {error}")
                return
            self._problems.pop(self._directory, None)
            changed = [path for path, stamp in stamps.items() if self._stamps.get(path) != stamp]
            gone = [path for path in self._stamps if path not in stamps]
            for path in changed:
                await self._read(path)
            for path in gone:
                self._found.pop(path, None)
                self._problems.pop(path, None)
            self._stamps = stamps
            if changed or gone:
                self._merge()
            self.synced = True

    async def _read(self, path: Path) -> None:
        try:
            self._found[path] = await asyncio.to_thread(read_manifests, path)
        except ManifestError as error:
            kept = "; its last good version stays in use" if path in self._found else ""
            self._problem(path, f"{error}{kept}")
        else:
            self._problems.pop(path, None)
            log.info("manifests read", file=path.name, objects=len(self._found[path]))

    def _problem(self, path: Path, text: str) -> None:
        if self._problems.get(path) != text:
            self._metrics.bad_files.inc()
            log.warning("bad manifests", file=path.name, error=text)
        self._problems[path] = text

    def _merge(self) -> None:
        """Put what the files say together into the store."""
        merged: Found = {}
        duplicates: list[str] = []
        origin: dict[object, Path] = {}
        for path in sorted(self._found):
            for key, record in self._found[path].items():
                if key in merged:
                    duplicates.append(
                        f"{path.name}: {key[0]} {key[1][1]} is already in {origin[key].name}, which decides"
                    )
                    continue
                merged[key] = record
                origin[key] = path
        for text in set(duplicates) - set(self._duplicates):
            self._metrics.bad_files.inc()
            log.warning("bad manifests", error=text)
        self._duplicates = tuple(duplicates)
        for kind in RESOURCES:
            records: dict[tuple[str, str], Record] = {key: one for (of, key), one in merged.items() if of == kind}
            self._store.replace(kind, records)
            self._metrics.counted(kind, self._store)


def _stamp(directory: Path) -> dict[Path, _Stamp]:
    """The manifest files and what tells their versions apart."""
    stamps: dict[Path, _Stamp] = {}
    for path in sorted(directory.iterdir()):
        # Mounted ConfigMaps keep their versions in hidden directories.
        if path.suffix not in SUFFIXES or path.name.startswith("."):
            continue
        try:
            status = path.stat()
        except FileNotFoundError:  # removed since it was listed, or a link to nothing
            continue
        if stat.S_ISREG(status.st_mode):
            stamps[path] = (status.st_mtime_ns, status.st_size, status.st_ino)
    return stamps
