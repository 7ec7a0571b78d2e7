"""Warnings of OpenTelemetry's SDK in our log: counted, throttled, and without anything that may be a secret.

The SDK warns about every failed batch and every retry, quotes headers that it cannot read, and passes on exceptions of
its HTTP client, which quote header values and whole URLs.
"""

import logging
import time
from collections.abc import Callable

from prometheus_client import Counter

from leadsman.telemetry.logs import get_logger
from leadsman.telemetry.throttle import Throttle

log = get_logger("telemetry.traces")

_QUOTES_SECRETS = "opentelemetry.util.re"
_MAX_TEXT = 200

Warn = Callable[[str, str], None]
"""Counts a warning of the kind named first, and logs the words unless one of its kind was logged just now."""


def take_over_warnings(counter: Counter) -> Warn:
    """Lead what the SDK logs to `counter` and our log; returns the way for warnings of our own.

    The latest call counts: the SDK's loggers belong to the process.
    """
    handler = _Handler(counter)
    logger = logging.getLogger("opentelemetry")
    logger.handlers[:] = [handler]
    logger.propagate = False
    return handler.warn


class _Handler(logging.Handler):
    def __init__(self, counter: Counter) -> None:
        super().__init__(logging.WARNING)
        self._counter = counter
        self._throttle = Throttle()

    def emit(self, record: logging.LogRecord) -> None:
        self.warn(f"{record.name}:{record.lineno}", _words(record))

    def warn(self, kind: str, words: str) -> None:
        self._counter.inc()
        if self._throttle.allows(kind, time.monotonic()):
            log.warning("trouble with traces", why=words[:_MAX_TEXT])


def _words(record: logging.LogRecord) -> str:
    if record.name == _QUOTES_SECRETS:
        return "OTEL_EXPORTER_OTLP_HEADERS is not a list of name=value"
    arguments = record.args if isinstance(record.args, tuple) else ()
    try:
        return record.msg % tuple(_brief(one) if isinstance(one, BaseException) else one for one in arguments)
    except (TypeError, ValueError):
        return str(record.msg)


def _brief(error: BaseException) -> str:
    """The kind of `error`, and what the system said, which is at the bottom of the HTTP client's layers."""
    cause = error
    while cause.__context__ is not None:
        cause = cause.__context__
    said = cause.strerror if isinstance(cause, OSError) else None
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
