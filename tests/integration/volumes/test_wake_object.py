"""The wake-up write: one annotation on one object of our own."""

from __future__ import annotations

import time

import pytest

from leadsman.kube.api import Api
from leadsman.testing.kube_api import Failure, FakeApi
from leadsman_gateway.volumes import WakeError, WakeObject
from leadsman_gateway.volumes.wake import ANNOTATION, NAME, wake_object

pytestmark = pytest.mark.integration

NAMESPACE = "leadsman-system"
CAPACITIES = "csistoragecapacities"


def written(server: FakeApi) -> str:
    value: str = server.objects[CAPACITIES][NAMESPACE, NAME]["metadata"]["annotations"][ANNOTATION]
    return value


async def test_missing_object_is_created(server: FakeApi, api: Api) -> None:
    """The first write makes the object; it offers no space, has a class of its own and selects no node."""
    await WakeObject(api, NAMESPACE).write("a/1")

    made = server.objects[CAPACITIES][NAMESPACE, NAME]
    assert written(server) == "a/1"
    assert made["capacity"] == "0"
    assert made["storageClassName"] == NAME
    assert made["nodeTopology"]["matchLabels"]


async def test_object_is_patched(server: FakeApi, api: Api) -> None:
    """Later writes are one merge patch each and leave the rest of the object alone."""
    wake = WakeObject(api, NAMESPACE)
    await wake.write("a/1")
    server.objects[CAPACITIES][NAMESPACE, NAME]["metadata"]["annotations"]["other"] = "kept"
    server.requests.clear()
    await wake.write("a/2")

    assert written(server) == "a/2"
    assert server.objects[CAPACITIES][NAMESPACE, NAME]["metadata"]["annotations"]["other"] == "kept"
    assert [f"PATCH /apis/storage.k8s.io/v1/namespaces/{NAMESPACE}/{CAPACITIES}/{NAME}"] == server.requests


async def test_another_gateway_creates_it_first(server: FakeApi, api: Api) -> None:
    """Losing the race for creation still writes the value."""
    server.before_create = wake_object(NAMESPACE, "other/1")
    await WakeObject(api, NAMESPACE).write("a/1")

    assert written(server) == "a/1"


async def test_missing_right_is_named(server: FakeApi, api: Api) -> None:
    """The message says which right is missing, where, and which file grants it."""
    server.failures.append(Failure(403))
    with pytest.raises(
        WakeError, match=r"'create' on csistoragecapacities.*'patch'.*leadsman-system; apply deploy/rbac"
    ):
        await WakeObject(api, NAMESPACE).write("a/1")


async def test_missing_namespace_is_named(api: Api) -> None:
    """The object cannot be made in a namespace that is not there."""
    with pytest.raises(WakeError, match="namespace elsewhere does not exist; create it, or name another"):
        await WakeObject(api, "elsewhere").write("a/1")


async def test_write_ends_at_its_deadline(server: FakeApi, api: Api) -> None:
    """A slow API server holds nobody up for longer than agreed."""
    server.delay_s = 3.0
    started = time.monotonic()
    with pytest.raises(WakeError, match=r"not written within 0\.3 s|no answer"):
        await WakeObject(api, NAMESPACE, deadline_s=0.3).write("a/1")
    assert time.monotonic() - started < 1.0


async def test_lost_server_is_an_error_that_says_so(server: FakeApi, api: Api) -> None:
    """Connection errors come as WakeError too."""
    await server.stop()
    with pytest.raises(WakeError, match="the wake-up was not written: PATCH"):
        await WakeObject(api, NAMESPACE).write("a/1")
