"""Structured logs: one JSON object per line, or coloured text on a terminal.

Keys: ts, level, logger, msg, and what the event carries. Every `warning` has a counter beside it.
"""

import logging
import sys
from typing import Any, Literal

import orjson
import structlog

LogFormat = Literal["auto", "json", "console"]


def configure_logs(level: str = "info", log_format: LogFormat = "auto") -> None:
    """Send structlog and the standard library's loggers to stderr in one format.

    `auto` means text on a terminal and JSON elsewhere. Libraries below warning level stay silent.
    """
    as_json = log_format == "json" or (log_format == "auto" and not sys.stderr.isatty())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
    ]
    if as_json:
        shared += [structlog.processors.dict_tracebacks, structlog.processors.EventRenamer("msg")]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        # Below the level a call is an empty function; otherwise it would run half of structlog to find that out.
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    renderer = structlog.processors.JSONRenderer(_dumps) if as_json else structlog.dev.ConsoleRenderer()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("leadsman").setLevel(level.upper())


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """A logger below `leadsman`, for example `get_logger("bus.replica")`."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(f"leadsman.{name}")
    return logger


def _dumps(event: Any, default: Any = None) -> str:  # noqa: ANN401 - structlog's own signature
    return orjson.dumps(event, default=default or str).decode()
