"""A small synchronous client of the API server: objects are plain JSON dicts, by kind and name."""

from __future__ import annotations

import http.client
import json
import ssl
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode, urlsplit

Object: TypeAlias = dict[str, Any]
Objects: TypeAlias = list[Object]

DEFAULT_NAMESPACE = "default"
FIELD_MANAGER = "leadsman-e2e"
REQUEST_TIMEOUT_SECONDS = 30.0
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


class ApiError(Exception):
    """The API server refused a request; `status` is the HTTP code, `reason` Kubernetes' word."""

    def __init__(self, request: str, status: int, reason: str, message: str) -> None:
        super().__init__(f"{request}: {status} {reason}: {message}")
        self.status = status
        self.reason = reason


class Api:
    """One user's view of the API server.

    Kinds are looked up by the server's own discovery, so any kind it serves can be used. Without a
    namespace, "default" is meant (`list`: all). Every request has its own connection, so any
    thread may use it and a restarted server is no special case.
    """

    def __init__(self, server: str, token: str, ca: Path) -> None:
        self._address = urlsplit(server)
        self._token = token
        self._tls = ssl.create_default_context(cafile=str(ca))

    def create(self, obj: Object) -> Object:
        """Create an object and return it as stored. Raises ApiError."""
        return self._send("POST", self._collection(obj["kind"], _namespace(obj)), obj)

    def apply(self, obj: Object) -> Object:
        """Create the object or change it to what is given (server-side apply, forced)."""
        path = self._path(obj["kind"], obj["metadata"]["name"], _namespace(obj))
        query = urlencode({"fieldManager": FIELD_MANAGER, "force": "true"})
        return self._send("PATCH", f"{path}?{query}", obj, APPLY_PATCH)

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object:
        """Read one object. Raises ApiError, with status 404 when there is none."""
        return self._send("GET", self._path(kind, name, namespace))

    def find(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """Read one object, or None when there is none."""
        try:
            return self.get(kind, name, namespace)
        except ApiError as error:
            if error.status == http.client.NOT_FOUND:
                return None
            raise

    def list(self, kind: str, namespace: str | None = None, *, labels: str = "", fields: str = "") -> Objects:
        """All objects of a kind, in one namespace or in all, narrowed by selectors."""
        selectors = {"labelSelector": labels, "fieldSelector": fields}
        query = urlencode({key: value for key, value in selectors.items() if value})
        items = self._send("GET", f"{self._collection(kind, namespace)}?{query}")["items"]
        return list(items)

    def delete(self, kind: str, name: str, namespace: str | None = None, *, grace_seconds: int = 0) -> None:
        """Delete an object; one that is not there is fine.

        At once by default: without kubelets nobody would ever confirm the end of a bound pod.
        """
        options: Object = {"gracePeriodSeconds": grace_seconds, "propagationPolicy": "Background"}
        try:
            self._send("DELETE", self._path(kind, name, namespace), options)
        except ApiError as error:
            if error.status != http.client.NOT_FOUND:
                raise

    def patch(
        self,
        kind: str,
        name: str,
        body: Object,
        namespace: str | None = None,
        *,
        subresource: str = "",
    ) -> Object:
        """Merge `body` into an object (lists are replaced whole) and return the result."""
        path = self._path(kind, name, namespace)
        if subresource:
            path = f"{path}/{subresource}"
        return self._send("PATCH", path, body, MERGE_PATCH)

    def patch_status(self, kind: str, name: str, status: Object, namespace: str | None = None) -> Object:
        """Merge into an object's status through the status subresource."""
        return self.patch(kind, name, {"status": status}, namespace, subresource="status")

    def events(self, namespace: str, pod: str) -> Objects:
        """The events about one pod."""
        fields = f"involvedObject.kind=Pod,involvedObject.name={pod}"
        return self.list("Event", namespace, fields=fields)

    def request(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> bytes:
        """One raw request. Raises ApiError for an answer of 400 and above."""
        headers = {"Authorization": f"Bearer {self._token}", "Accept": accept}
        if body is not None:
            headers["Content-Type"] = content_type
        connection = http.client.HTTPSConnection(
            self._address.hostname or "",
            self._address.port,
            context=self._tls,
            timeout=REQUEST_TIMEOUT_SECONDS,
        )
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        if response.status >= http.client.BAD_REQUEST:
            raise _error(f"{method} {path}", response.status, answer)
        return answer

    def _send(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        content_type: str = "application/json",
    ) -> Object:
        answer: Object = json.loads(self.request(method, path, body, content_type=content_type))
        return answer

    def _path(self, kind: str, name: str, namespace: str | None) -> str:
        collection = self._collection(kind, namespace or DEFAULT_NAMESPACE)
        return f"{collection}/{quote(name, safe='')}"

    def _collection(self, kind: str, namespace: str | None) -> str:
        if kind not in self._resources:
            # A CustomResourceDefinition may have come since.
            del self._resources
        if kind not in self._resources:
            raise ValueError(f"the API server has no kind {kind!r}: check its spelling")
        root, plural, namespaced = self._resources[kind]
        if namespaced and namespace is not None:
            return f"{root}/namespaces/{namespace}/{plural}"
        return f"{root}/{plural}"

    @cached_property
    def _resources(self) -> dict[str, tuple[str, str, bool]]:
        """For each kind its URL root, plural and whether it has namespaces; first group wins."""
        found: dict[str, tuple[str, str, bool]] = {}
        for prefix in ("/api", "/apis"):
            groups = json.loads(self.request("GET", prefix, accept=DISCOVERY))["items"]
            for group in groups:
                version = group["versions"][0]
                root = "/".join(part for part in (prefix, group["metadata"].get("name"), version["version"]) if part)
                for resource in version.get("resources", []):
                    kind = resource["responseKind"]["kind"]
                    namespaced = resource["scope"] == "Namespaced"
                    found.setdefault(kind, (root, resource["resource"], namespaced))
        return found


def _namespace(obj: Object) -> str:
    return str(obj["metadata"].get("namespace", DEFAULT_NAMESPACE))


def _error(request: str, status: int, answer: bytes) -> ApiError:
    try:
        body = json.loads(answer)
    except ValueError:
        body = {"message": answer.decode(errors="replace")}
    return ApiError(request, status, str(body.get("reason", "")), str(body.get("message", "")))


def condition(obj: Object, kind: str) -> Object | None:
    """The condition of that type in an object's status, or None."""
    for candidate in obj.get("status", {}).get("conditions", []):
        if candidate["type"] == kind:
            return dict(candidate)
    return None
