"""How a service or a collector talks to NATS; every nats-py default that hurts us is replaced here."""

from dataclasses import dataclass
from urllib.parse import urlsplit

_DEFAULT_PORT = 4222


@dataclass(frozen=True, slots=True)
class BusSettings:
    """Connection settings; durations in seconds.

    `name` shows up in NATS monitoring; its part before the first `/` is the role and names the inbox prefix
    (`_INBOX_<role>`), so that server permissions can keep roles from reading each other's replies.

    A connection is given up when a PING, sent every `ping_interval_s`, is not answered within `pong_timeout_s`.
    `silence_grace_s` is how long ages go on without proof that the bus works (see `leadsman.bus.link`). Between
    attempts to connect a random time up to `reconnect_jitter_s` passes. At most `pending_bytes` wait to be sent.
    """

    urls: tuple[str, ...]
    name: str
    creds_file: str | None = None
    ping_interval_s: float = 1.0
    pong_timeout_s: float = 3.0
    silence_grace_s: float = 2.0
    connect_timeout_s: float = 2.0
    reconnect_jitter_s: float = 0.25
    pending_bytes: int = 256 * 1024

    @classmethod
    def for_service(cls, urls: tuple[str, ...], name: str, creds_file: str | None = None) -> "BusSettings":
        """For the few replicas that must know within seconds that the bus is frozen, and be back at once."""
        return cls(urls, name, creds_file)

    @classmethod
    def for_collector(cls, urls: tuple[str, ...], name: str, creds_file: str | None = None) -> "BusSettings":
        """For thousands of nodes: gentle pings, a spread-out return, and no backlog of worthless old statuses."""
        return cls(
            urls,
            name,
            creds_file,
            ping_interval_s=10.0,
            pong_timeout_s=10.0,
            silence_grace_s=20.0,
            reconnect_jitter_s=10.0,
            pending_bytes=32 * 1024,
        )

    @property
    def inbox_prefix(self) -> str:
        """Prefix of the subjects that answers to this client arrive on."""
        role = self.name.partition("/")[0]
        return "_INBOX_" + "".join(letter if letter.isalnum() or letter == "-" else "_" for letter in role)

    @property
    def shown_urls(self) -> str:
        """The servers without user names, passwords or tokens, for logs and errors."""
        return ", ".join(self.safe_urls)

    @property
    def safe_urls(self) -> tuple[str, ...]:
        """As `shown_urls`, one by one."""
        return tuple(_without_secrets(url) for url in self.urls)


def _without_secrets(url: str) -> str:
    try:
        parts = urlsplit(url if "//" in url else f"nats://{url}")
        port = parts.port or _DEFAULT_PORT
    except ValueError:
        return "(unreadable address)"
    return f"{parts.scheme}://{parts.hostname}:{port}"
