"""Logs are one JSON object per line off a terminal."""

import json
import subprocess
import sys

PROGRAM = """
import logging
from leadsman.telemetry.logs import configure_logs, get_logger
configure_logs("info", "{format}")
log = get_logger("bus")
log.debug("hidden")
log.info("listening", address="127.0.0.1:1")
logging.getLogger("uvicorn").info("chatter")
logging.getLogger("asyncio").warning("slow %s", "callback")
try:
    raise ValueError("why")
except ValueError:
    log.exception("task failed")
"""


def lines(log_format: str) -> list[str]:
    """What the program above writes to stderr."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(format=log_format)], capture_output=True, text=True, check=True
    )
    return done.stderr.splitlines()


def test_json_lines_carry_the_documented_keys() -> None:
    """Own and foreign events share one shape; quiet libraries stay quiet; errors keep their cause."""
    first, foreign, failed = [json.loads(line) for line in lines("auto")]
    assert (first["level"], first["logger"], first["msg"]) == ("info", "leadsman.bus", "listening")
    assert first["address"] == "127.0.0.1:1"
    assert first["ts"].endswith("Z")
    assert (foreign["level"], foreign["msg"]) == ("warning", "slow callback")
    assert failed["exception"][0]["exc_value"] == "why"


def test_console_is_text() -> None:
    """On a terminal people read it."""
    assert any("listening" in line and not line.startswith("{") for line in lines("console"))
