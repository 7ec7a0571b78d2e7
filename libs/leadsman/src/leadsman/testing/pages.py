"""Read what a service on this machine says about itself: readiness, metrics, version."""

import http.client


def page(port: int, path: str, within_s: float = 5.0) -> tuple[int, str]:
    """Status and text of a page on 127.0.0.1; status 0 and the reason while nobody answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=within_s)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        return 0, f"no answer: {error!r}"
    finally:
        connection.close()
