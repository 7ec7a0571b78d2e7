"""How one API server is reached and who we are there: from a pod's ServiceAccount, without the client library.

The client library is for kubeconfigs alone (`kubeconfig.py`): importing it costs 0.9 s and 23 MiB, a quarter of what a
node's agent may use in all.
"""

import os
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from leadsman.domain.errors import ConfigError
from leadsman.kube.api import SERVICE_ACCOUNT

TOKEN_FRESH_S = 60.0
"""The kubelet replaces a pod's token before it expires, so it is read again this often."""


@dataclass(frozen=True, slots=True)
class Access:
    """An address and credentials. `authorization` gives the header's value, empty for none (a client certificate)."""

    server: str
    tls: ssl.SSLContext
    authorization: Callable[[], str]
    server_name: str | None = None
    proxy: str | None = None


class TokenFile:
    """The value of an Authorization header from a file that is replaced now and then.

    Raises:
        ConfigError: there is no token to begin with.
    """

    def __init__(self, path: Path, now: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._now = now
        self._value = self._read()
        self._read_at = now()

    def __call__(self) -> str:
        """The header's value; while the file cannot be read, that of the last time."""
        if self._now() - self._read_at >= TOKEN_FRESH_S:
            self._read_at = self._now()
            try:
                self._value = self._read()
            except ConfigError:
                return self._value  # a 401 will tell, should it have expired
        return self._value

    def _read(self) -> str:
        try:
            token = self._path.read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            raise ConfigError(f"the token cannot be read: {error}") from error
        if not token:
            raise ConfigError(f"the token file {self._path} is empty")
        return f"Bearer {token}"


def service_account(folder: Path = SERVICE_ACCOUNT) -> Access:
    """The access that the kubelet gives a pod.

    Raises:
        ConfigError: we are not in a pod, or it was given no credentials.
    """
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{name}", "") for name in ("HOST", "PORT"))
    if not host or not port:
        raise ConfigError("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set, so this is no pod")
    named = f"[{host}]" if ":" in host else host
    authority = folder / "ca.crt"
    try:
        tls = tls_context(authority)
    except OSError as error:
        raise ConfigError(f"the authority {authority} cannot be used: {error}") from error
    server = f"https://{named}:{port}"
    return Access(server, tls, TokenFile(folder / "token"), proxy=environment_proxy(server))


def environment_proxy(server: str) -> str | None:
    """The proxy that the environment names for `server` (HTTPS_PROXY, NO_PROXY), as kubectl takes it; None for none."""
    parts = urlsplit(server)
    if proxy_bypass(parts.netloc):
        return None
    return getproxies().get(parts.scheme)


def tls_context(authority: Path | None) -> ssl.SSLContext:
    """TLS that trusts `authority` only, or the system's authorities for None.

    Raises:
        OSError: the file is missing or holds no certificate (ssl.SSLError is an OSError).
    """
    context = ssl.create_default_context(cafile=authority)
    # Python 3.13 refuses authorities without every RFC 5280 extension; kubectl takes them, and so do we.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
