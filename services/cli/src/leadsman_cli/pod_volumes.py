"""Which storage a pod file needs, worked out by the gateway's own code from manifests or from a cluster, once."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from prometheus_client import CollectorRegistry

from leadsman.domain.clock import SystemClock
from leadsman.domain.requirements import NOWHERE
from leadsman.kube.api import Api, ApiError, ApiStatusError, Call, connect
from leadsman.wire.pod import Pod
from leadsman_cli.errors import CommandError
from leadsman_gateway.volumes import (
    ApiServerCatalogue,
    Catalogue,
    ManifestCatalogue,
    ObjectRef,
    Resolution,
    VolumeResolver,
    annotated_near,
    needs_storage,
)

__all__ = ["VolumeSource", "annotated_near", "resolve"]

_DEADLINE_S = 10.0
_CALL_S = 4.0
_ROUNDS = 4
"""A claim leads to a volume, or to a class: each look may bring a name that was not known before."""

_ANYTHING = ObjectRef("PersistentVolumeClaim", "default", "any")
"""Makes a directory of manifests be read."""


@dataclass(frozen=True, slots=True)
class VolumeSource:
    """Where claims and volumes are known from: a cluster or a directory of manifests, or neither."""

    kubeconfig: Path | None = None
    manifests: Path | None = None


def resolve(pod: Pod, source: VolumeSource, backend_attributes: Mapping[str, str]) -> Resolution:
    """What `pod` needs; `backend_attributes` are the policy's.

    Raises:
        CommandError: the pod has volumes and no source is given, or the source cannot be read.
    """
    if not needs_storage(pod):
        return Resolution(near=annotated_near(pod) or NOWHERE)
    return asyncio.run(_resolve(pod, source, backend_attributes))


async def _resolve(pod: Pod, source: VolumeSource, backend_attributes: Mapping[str, str]) -> Resolution:
    if source.manifests is not None:
        return await _from_manifests(pod, source.manifests, backend_attributes)
    if source.kubeconfig is not None:
        return await _from_cluster(pod, source.kubeconfig, backend_attributes)
    raise CommandError(
        f"pod {pod.metadata.name} has volumes; say where claims are known from: --kubeconfig FILE or --manifests DIR"
    )


async def _from_manifests(pod: Pod, directory: Path, backend_attributes: Mapping[str, str]) -> Resolution:
    catalogue = ManifestCatalogue(directory, registry=CollectorRegistry())
    await catalogue.fetch([_ANYTHING])
    if catalogue.problems:
        raise CommandError("; ".join(catalogue.problems))
    return VolumeResolver(catalogue, backend_attributes).resolve(pod)


async def _from_cluster(pod: Pod, kubeconfig: Path, backend_attributes: Mapping[str, str]) -> Resolution:
    api = _Attentive(await connect(kubeconfig, user_agent="leadsman-cli"))
    try:
        catalogue = ApiServerCatalogue(
            api, clock=SystemClock(), registry=CollectorRegistry(), fetch_deadline_s=_DEADLINE_S
        )
        resolution = await _read_through(pod, catalogue, backend_attributes)
    finally:
        await api.close()
    if api.trouble is not None:
        raise CommandError(f"claims and volumes cannot be read from the cluster: {api.trouble}")
    return resolution


async def _read_through(pod: Pod, catalogue: Catalogue, backend_attributes: Mapping[str, str]) -> Resolution:
    resolver = VolumeResolver(catalogue, backend_attributes)
    resolution = resolver.resolve(pod)
    for _ in range(_ROUNDS):
        if not resolution.missing or not await catalogue.fetch(resolution.missing):
            break
        resolution = resolver.resolve(pod)
    return resolution


class _Attentive:
    """An API server that remembers what went wrong; the catalogue only logs it, because the gateway lives on."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.trouble: ApiError | None = None

    async def call(self, call: Call, *, deadline_s: float) -> bytes:
        """See `Api.call`; given up before the catalogue loses patience, which would hide the error."""
        try:
            return await self._api.call(call, deadline_s=min(deadline_s, _CALL_S))
        except ApiError as error:
            if not isinstance(error, ApiStatusError) or error.status != HTTPStatus.NOT_FOUND:
                self.trouble = error
            raise

    def lines(self, call: Call, *, idle_s: float) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """See `Api.lines`."""
        return self._api.lines(call, idle_s=idle_s)

    async def close(self) -> None:
        """See `Api.close`."""
        await self._api.close()
