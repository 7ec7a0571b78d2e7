"""Ask a control plane component for its health, or for any other page it serves."""

from __future__ import annotations

import http.client
import ssl


def health(port: int, path: str) -> str:
    """What a health endpoint says: "ok", or its complaint, or why it is silent."""
    try:
        return page(port, path)
    except (OSError, http.client.HTTPException) as error:
        return f"no answer: {error!r}"


def page(port: int, path: str, token: str | None = None) -> str:
    """The body a component on loopback answers with. Raises OSError when it does not."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=_any_server(), timeout=5)
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().read().decode(errors="replace")
    finally:
        connection.close()


def _any_server() -> ssl.SSLContext:
    # The components sign their own certificates; who answers on loopback is not in question here.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
