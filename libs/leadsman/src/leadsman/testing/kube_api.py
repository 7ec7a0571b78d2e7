"""A small API server: list with paging, watch with bookmarks, get, create and patch, and every way to fail.

It keeps one resourceVersion for everything, as etcd does, and a history that can be compacted.
"""

from __future__ import annotations

import asyncio
import copy
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from aiohttp import web

Object = dict[str, Any]
KINDS = {
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "persistentvolumes": "PersistentVolume",
    "storageclasses": "StorageClass",
    "csidrivers": "CSIDriver",
    "csistoragecapacities": "CSIStorageCapacity",
    "nodes": "Node",
    "csinodes": "CSINode",
    "events": "Event",
}


@dataclass
class Failure:
    """An answer given instead of the real one, `times` times, to requests whose path ends in `suffix`.

    `method` and `watch` narrow it further. With `after` the request is carried out first, and its answer lost.
    """

    status: int
    suffix: str = ""
    times: int = 1_000_000
    headers: dict[str, str] = field(default_factory=dict)
    watch: bool | None = None
    method: str = ""
    after: bool = False

    def hits(self, request: web.Request, *, watching: bool) -> bool:
        """Whether `request` fails by it."""
        wanted = self.watch in {None, watching} and self.method in {"", request.method}
        return wanted and self.times > 0 and request.path.endswith(self.suffix)


class FakeApi:
    """Use as an async context manager. Switches are plain attributes."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[tuple[str, str], Object]] = {plural: {} for plural in KINDS}
        self.namespaces = {"leadsman-system", "default"}
        self.version = 100
        self.token = "first"
        self.requests: list[str] = []
        self.failures: list[Failure] = []
        self.muted = False
        self.ending_at_once = False
        self.delay_s = 0.0
        self.expired_pages = 0
        self.before_create: Object | None = None
        self.port = 0
        self._oldest = 0
        self._history: list[tuple[int, str, str, Object]] = []
        self._news = asyncio.Condition()
        self._transports: set[asyncio.BaseTransport] = set()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen, on the port of the last time if there was one."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Cut every connection and stop listening."""
        await self.cut()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def kubeconfig(self, directory: Path, token: str | None = None) -> Path:
        """Write a kubeconfig for this server; by default with the right token."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "fake",
            "clusters": [{"name": "fake", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "users": [{"name": "gateway", "user": {"token": token or self.token}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "gateway"}}],
        }
        path = directory / "kubeconfig"
        path.write_text(json.dumps(config))
        return path

    async def put(self, plural: str, obj: Object) -> None:
        """Create or replace an object; watchers hear of it."""
        self.version += 1
        stored = copy.deepcopy(obj)
        stored["metadata"]["resourceVersion"] = str(self.version)
        known = self.objects[plural]
        event = "MODIFIED" if _key(stored) in known else "ADDED"
        known[_key(stored)] = stored
        await self._tell(event, plural, stored)

    async def delete(self, plural: str, name: str, namespace: str = "") -> None:
        """Delete an object; watchers hear of it."""
        self.version += 1
        gone = self.objects[plural].pop((namespace, name))
        gone["metadata"]["resourceVersion"] = str(self.version)
        await self._tell("DELETED", plural, gone)

    async def bookmark(self, plural: str) -> None:
        """Send watchers of `plural` a new version, as if other objects had changed."""
        self.version += 1
        await self._tell(
            "BOOKMARK", plural, {"kind": KINDS[plural], "metadata": {"resourceVersion": str(self.version)}}
        )

    async def error(self, plural: str, code: int) -> None:
        """Send watchers of `plural` an error inside their streams."""
        self.version += 1
        await self._tell("ERROR", plural, {"kind": "Status", "code": code, "message": "told to fail"})

    def compact(self) -> None:
        """Forget history: a watch or a page from before now is answered 410."""
        self._oldest = self.version
        self._history.clear()

    async def cut(self) -> None:
        """Break every watch without a word."""
        for transport in list(self._transports):
            transport.abort()  # type: ignore[attr-defined] # every TCP transport has it
        async with self._news:
            self._news.notify_all()

    def count(self, text: str) -> int:
        """Number of requests whose line holds `text`."""
        return sum(text in line for line in self.requests)

    async def _tell(self, event: str, plural: str, obj: Object) -> None:
        self._history.append((self.version, plural, event, copy.deepcopy(obj)))
        async with self._news:
            self._news.notify_all()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path_qs}")
        watching = request.query.get("watch") == "true"
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return _status(401, "Unauthorized")
        for failure in self.failures:
            if failure.hits(request, watching=watching):
                failure.times -= 1
                if failure.after:
                    await self._answer(request, watching=watching)
                return _status(failure.status, "told to fail", failure.headers)
        return await self._answer(request, watching=watching)

    async def _answer(self, request: web.Request, *, watching: bool) -> web.StreamResponse:
        plural, namespace, name = _parse(request.path)
        if request.method == "GET" and watching:
            return await self._watch(request, plural)
        if request.method == "GET" and not name:
            return self._list(request, plural)
        return await self._object(request, plural, namespace, name)

    def _list(self, request: web.Request, plural: str) -> web.Response:
        start = int(request.query.get("continue", "0"))
        if start and self.expired_pages:
            self.expired_pages -= 1
            return _status(410, "The provided continue parameter is too old")
        items = [_shown(request, item) for item in self.objects[plural].values() if _selected(request, item)]
        limit = int(request.query.get("limit", "500"))
        more = str(start + limit) if start + limit < len(items) else ""
        metadata = {"resourceVersion": str(self.version), "continue": more}
        return web.json_response({"metadata": metadata, "items": items[start : start + limit]})

    async def _watch(self, request: web.Request, plural: str) -> web.StreamResponse:
        seen = int(request.query["resourceVersion"])
        if seen < self._oldest:
            return _status(410, "too old resource version")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        transport = request.transport
        assert transport is not None
        self._transports.add(transport)
        try:
            while not self.ending_at_once and not transport.is_closing():
                for version, of, event, obj in list(self._history):
                    if version > seen and of == plural and not self.muted and _selected(request, obj):
                        shown = {"type": event, "object": _shown(request, obj)}
                        await response.write(json.dumps(shown).encode() + b"\n")
                        seen = version
                async with self._news:
                    await self._news.wait()
        except ConnectionError:
            pass
        finally:
            self._transports.discard(transport)
        return response

    async def _object(self, request: web.Request, plural: str, namespace: str, name: str) -> web.Response:
        known = self.objects[plural]
        if request.method == "POST":
            if namespace and namespace not in self.namespaces:
                return _status(404, f'namespaces "{namespace}" not found')
            if self.before_create is not None:
                await self.put(plural, self.before_create)
                self.before_create = None
            body = await request.json()
            if _key(body) in known:
                return _status(409, "already exists")
            await self.put(plural, body)
            return web.json_response(body, status=201)
        if (namespace, name) not in known:
            return _status(404, f'{plural} "{name}" not found')
        if request.method == "PATCH":
            kind = request.headers["Content-Type"].removeprefix("application/").removesuffix("-patch+json")
            if kind not in {"merge", "strategic-merge"}:
                return _status(415, "the body is in an unsupported format")
            lists_by_type = kind == "strategic-merge"
            await self.put(plural, _merged(known[namespace, name], await request.json(), lists_by_type=lists_by_type))
        return web.json_response(known[namespace, name])


def _parse(path: str) -> tuple[str, str, str]:
    """Plural, namespace and name in a path of the API."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if parts[0] == "namespaces":
        namespace, parts = parts[1], parts[2:]
    return parts[0], namespace, parts[1] if len(parts) > 1 else ""


def _selected(request: web.Request, obj: Object) -> bool:
    """Whether the request's field selector, which can only be `metadata.name=…`, takes `obj`.

    What has no name (bookmarks, errors) always passes.
    """
    wanted = request.query.get("fieldSelector", "").removeprefix("metadata.name=")
    return wanted in {"", obj.get("metadata", {}).get("name", wanted)}


def _shown(request: web.Request, obj: Object) -> Object:
    """`obj` in the form that the request accepts."""
    if "metadata" in obj and "as=PartialObjectMetadata" in request.headers.get("Accept", ""):
        return {key: value for key, value in obj.items() if key in {"kind", "metadata"}}
    return obj


def _merged(old: Any, patch: Any, *, lists_by_type: bool) -> Any:  # noqa: ANN401 - any JSON
    """`old` after a merge patch (RFC 7386); a strategic one merges lists of conditions by their type."""
    if isinstance(patch, dict):
        new = dict(old) if isinstance(old, dict) else {}
        for key, value in patch.items():
            new[key] = _merged(new.get(key), value, lists_by_type=lists_by_type)
        return {key: value for key, value in new.items() if value is not None}
    if isinstance(patch, list) and lists_by_type:
        by_type = {item["type"]: item for item in old or ()}
        for item in patch:
            by_type[item["type"]] = {**by_type.get(item["type"], {}), **item}
        return list(by_type.values())
    return copy.deepcopy(patch)


def _key(obj: Object) -> tuple[str, str]:
    return (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def _status(code: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.json_response({"kind": "Status", "code": code, "message": message}, status=code, headers=headers)
