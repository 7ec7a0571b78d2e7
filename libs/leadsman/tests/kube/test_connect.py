"""Credentials: from a kubeconfig or from a pod's ServiceAccount, read again when they have changed."""

import shutil
import ssl
from http import HTTPStatus

import pytest

from leadsman.domain.errors import ConfigError
from leadsman.kube import api
from leadsman.kube.access import TOKEN_FRESH_S, Access, TokenFile, environment_proxy, service_account
from leadsman.kube.api import ApiStatusError, ApiUnreachableError, Call, connect
from leadsman.kube.kube_api import KubeApi
from leadsman.testing.kube_api import Failure, FakeApi

AGENT = "leadsman-test"
NODE = Call("GET", "/api/v1/nodes/worker-1")


@pytest.fixture
async def server():
    """An API server that knows one node."""
    async with FakeApi() as running:
        await running.put("nodes", {"metadata": {"name": "worker-1"}})
        yield running


@pytest.fixture
def pod(tmp_path, monkeypatch):
    """The files and variables of a pod; their folder."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    shutil.copy(ssl.get_default_verify_paths().cafile or _no_authority(), tmp_path / "ca.crt")
    (tmp_path / "token").write_text("first\n")
    return tmp_path


def _no_authority():
    pytest.skip("this machine has no file of certificate authorities to stand in for the cluster's")


@pytest.mark.parametrize("text", [None, "", "{", "kind: Config\nclusters: []\ncurrent-context: x\n", "[]"])
async def test_unusable_kubeconfig_is_a_plain_error(tmp_path, text):
    """Whatever is wrong with the file, the message names it."""
    bad = tmp_path / "kubeconfig"
    if text is not None:
        bad.write_text(text)
    with pytest.raises(ConfigError, match=f"kubeconfig {bad} cannot be used: .+; check the file"):
        await connect(bad, user_agent=AGENT)


async def test_outside_a_cluster_there_are_no_credentials(monkeypatch):
    """Without a kubeconfig and without a pod's ServiceAccount the message says what to give."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert not api.in_cluster()
    with pytest.raises(ConfigError, match=r"in-cluster credentials cannot be used: .*--kubeconfig"):
        await connect(None, user_agent=AGENT)


def test_pod_without_a_token_is_not_in_a_cluster(monkeypatch, tmp_path):
    """A pod that was denied a token can do without the API server, and must not fail on it."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setattr(api, "TOKEN_FILE", tmp_path / "token")
    assert not api.in_cluster()
    (tmp_path / "token").write_text("first")
    assert api.in_cluster()


@pytest.mark.parametrize(
    ("host", "server"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
def test_pod_is_told_its_server(pod, monkeypatch, host, server):
    """The address comes from the kubelet's variables."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    access = service_account(pod)
    assert access.server == server
    assert access.authorization() == "Bearer first"


@pytest.mark.parametrize(("name", "content"), [("ca.crt", ""), ("ca.crt", None), ("token", ""), ("token", None)])
def test_incomplete_service_account_is_a_plain_error(pod, name, content):
    """Missing and empty files are named."""
    (pod / name).unlink()
    if content is not None:
        (pod / name).write_text(content)
    with pytest.raises(ConfigError, match=name):
        service_account(pod)


def test_replaced_token_is_read_within_a_minute(tmp_path):
    """The kubelet renews the file; a moment without it costs nothing."""
    now, path = 0.0, tmp_path / "token"
    path.write_text("first")
    token = TokenFile(path, lambda: now)
    path.write_text("second")
    assert token() == "Bearer first"
    now = TOKEN_FRESH_S
    assert token() == "Bearer second"
    path.unlink()
    now *= 2
    assert token() == "Bearer second"
    path.write_text("third")
    now *= 2
    assert token() == "Bearer third"


async def test_refused_token_is_loaded_again(server):
    """After a 401 the credentials are read anew, and the same call goes through."""
    tokens = ["stale", "first"]

    async def load():
        token = tokens.pop(0)
        return Access(f"http://127.0.0.1:{server.port}", ssl.create_default_context(), lambda: f"Bearer {token}")

    client = KubeApi(load, await load(), AGENT)
    try:
        assert b"worker-1" in await client.call(NODE, deadline_s=5)
        assert b"worker-1" in await client.call(NODE, deadline_s=5)
    finally:
        await client.close()
    assert not tokens
    assert server.count("GET") == 3


async def test_refusal_of_new_credentials_too_is_told(server):
    """Credentials that stay wrong are an error of the call, not a loop."""

    async def load():
        return Access(f"http://127.0.0.1:{server.port}", ssl.create_default_context(), lambda: "Bearer wrong")

    client = KubeApi(load, await load(), AGENT)
    try:
        with pytest.raises(ApiStatusError) as caught:
            await client.call(NODE, deadline_s=5)
    finally:
        await client.close()
    assert caught.value.status == HTTPStatus.UNAUTHORIZED
    assert server.count("GET") == 2


async def test_redirect_is_not_followed(server, tmp_path):
    """Our token is for this server alone."""
    server.failures.append(Failure(307, headers={"Location": f"http://localhost:{server.port}/api/v1/nodes/worker-1"}))
    client = await connect(server.kubeconfig(tmp_path), user_agent=AGENT)
    try:
        with pytest.raises(ApiStatusError, match="GET /api/v1/nodes/worker-1: 307"):
            await client.call(NODE, deadline_s=5)
    finally:
        await client.close()
    assert server.count("GET") == 1


async def test_proxy_of_the_environment_is_used(server, tmp_path, monkeypatch):
    """As kubectl does; and not for what NO_PROXY names."""
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.port}")
    path = server.kubeconfig(tmp_path)
    path.write_text(path.read_text().replace(f"127.0.0.1:{server.port}", "kube-apiserver.invalid:6443"))
    client = await connect(path, user_agent=AGENT)
    try:
        assert b"worker-1" in await client.call(NODE, deadline_s=5)
    finally:
        await client.close()
    monkeypatch.setenv("no_proxy", "kube-apiserver.invalid")
    assert environment_proxy("http://kube-apiserver.invalid:6443") is None


async def test_netrc_has_no_say(server, tmp_path, monkeypatch):
    """Passwords that somebody keeps for another program on the same host are not ours to send."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login other password secret\ndefault login x password y\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    client = await connect(server.kubeconfig(tmp_path), user_agent=AGENT)
    try:
        assert b"worker-1" in await client.call(NODE, deadline_s=5)
    finally:
        await client.close()


async def test_lost_server_is_unreachable(server, tmp_path):
    """Whatever the network says comes as one kind of error that names the call."""
    client = await connect(server.kubeconfig(tmp_path), user_agent=AGENT)
    await server.stop()
    try:
        with pytest.raises(ApiUnreachableError, match="GET /api/v1/nodes/worker-1: "):
            await client.call(NODE, deadline_s=5)
    finally:
        await client.close()
