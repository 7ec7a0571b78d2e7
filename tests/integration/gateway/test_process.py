"""The command itself: it listens, says where, answers, drains on SIGTERM, and refuses bad options in one line."""

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.integration


def command(*options: str) -> list[str]:
    return [sys.executable, "-m", "leadsman_gateway", "--nats-url", "nats://127.0.0.1:1", *options]


def wait_for(file: Path, within_s: float = 15.0) -> Any:
    deadline = time.monotonic() + within_s
    while not file.exists():
        assert time.monotonic() < deadline, f"{file} did not appear"
        time.sleep(0.02)
    return json.loads(file.read_bytes())


def test_process_answers_and_drains(tmp_path: Any) -> None:
    """Port 0 works, /version answers, SIGTERM ends it with 0 and without a traceback."""
    ports = tmp_path / "ports.json"
    options = (
        "--listen",
        "127.0.0.1:0",
        "--manifests",
        str(tmp_path),
        "--port-file",
        str(ports),
        "--log-format",
        "json",
    )
    with subprocess.Popen(command(*options), stderr=subprocess.PIPE, text=True) as process:
        port = wait_for(ports)["http"]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/version") as reply:
            version = json.loads(reply.read())
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=15)

    assert version["component"] == "gateway"
    assert process.returncode == 0
    assert "Traceback" not in errors
    lines = [json.loads(line) for line in errors.splitlines()]
    assert {"listening", "stopping"} <= {line["msg"] for line in lines}
    assert not [line for line in lines if line["level"] == "error"]


def test_file_that_is_no_kubeconfig_is_one_sentence(tmp_path: Any) -> None:
    """Exit code 1 and what is wrong with the file, in the operator's words."""
    (tmp_path / "hostname").write_text("node-1\n")
    done = subprocess.run(
        command("--listen", "127.0.0.1:0", "--kubeconfig", str(tmp_path / "hostname")),
        capture_output=True,
        text=True,
        timeout=15,
        check=False,
    )

    assert done.returncode == 1
    assert "it is not a kubeconfig" in done.stderr
    assert "Traceback" not in done.stderr


def test_taken_port_is_one_sentence(tmp_path: Any) -> None:
    """Exit code 1 and what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run(
            command("--listen", address, "--manifests", str(tmp_path)),
            capture_output=True,
            text=True,
            timeout=15,
            check=False,
        )

    assert done.returncode == 1
    assert "cannot listen on" in done.stderr
    assert "Traceback" not in done.stderr
