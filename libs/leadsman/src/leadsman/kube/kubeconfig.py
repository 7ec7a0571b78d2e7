"""Access from a kubeconfig, read by the asynchronous Kubernetes client: it knows every way to log in.

Imported when there is a kubeconfig only. The client's generated API classes and models are left alone: importing them
costs 2 s and 120 MB.
"""

import asyncio
import ssl
from pathlib import Path

import yaml
from kubernetes.aio import config
from kubernetes.aio.client.configuration import Configuration

from leadsman.domain.errors import ConfigError
from leadsman.kube.access import Access, environment_proxy, tls_context

LOAD_S = 30.0
"""Time to read credentials; a kubeconfig may call a program for them."""


async def read_kubeconfig(path: Path) -> Access:
    """The access that the current context of `path` describes.

    Raises:
        ConfigError: the file cannot be used.
    """
    settings = Configuration()
    try:
        _check_form(path)
        async with asyncio.timeout(LOAD_S):
            await config.load_kube_config(  # type: ignore[no-untyped-call]
                str(path), client_configuration=settings, persist_config=False
            )
        return _access(settings)
    except (config.ConfigException, OSError, ValueError, LookupError, TypeError, yaml.YAMLError) as error:
        raise ConfigError(" ".join(str(error).split()) or type(error).__name__) from error


def _access(settings: Configuration) -> Access:
    tls = tls_context(Path(settings.ssl_ca_cert) if settings.ssl_ca_cert else None)
    if settings.cert_file:
        tls.load_cert_chain(settings.cert_file, settings.key_file)
    if not settings.verify_ssl:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    authorization = str(settings.api_key.get("BearerToken") or "")
    proxy = settings.proxy or environment_proxy(settings.host)
    return Access(settings.host, tls, lambda: authorization, settings.tls_server_name, proxy)


def _check_form(path: Path) -> None:
    """Raise ValueError for a file of another kind, on which the client's loader fails in words about itself."""
    content = yaml.safe_load(path.read_bytes())
    if not isinstance(content, dict) or not isinstance(content.get("clusters"), list):
        raise ValueError("it is not a kubeconfig (kind: Config, with a list of clusters)")  # noqa: TRY004 - the file, not the caller
