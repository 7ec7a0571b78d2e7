"""What `check` tells people and programs about one pass."""

import json

import pytest

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey, StorageStatus, VolumeStatus
from leadsman.domain.states import State
from leadsman_health_collector.check_report import (
    EXIT_CODES,
    CheckReport,
    ExitCode,
    Looked,
    Skipped,
    render_json,
)
from leadsman_health_collector.check_table import render_table, shorten, wants_colour
from leadsman_health_collector.observation import Kind, Observation, Outcome, not_run
from leadsman_health_collector.probes.probe import Source
from leadsman_health_collector.strikes import Level

DRIVER = StorageKey("nfs.csi.k8s.io")
BACKEND = StorageKey("nfs.csi.k8s.io", "10.0.0.9")
SOCKET = "/var/lib/kubelet/plugins/csi-nfsplugin/csi.sock"
MOUNT = "/var/lib/kubelet/pods/6f0d1c0e-0000-4000-8000-000000000000/volumes/kubernetes.io~csi/pvc-1/mount"
REFUSED = "10.0.0.9:2049 refuses the connection"

ANSWERS = Looked(
    Kind.PLUGIN,
    SOCKET,
    Source(DRIVER, place=SOCKET),
    Observation(Outcome.GOOD, latency_s=0.0023),
    Level(State.HEALTHY, latency_s=0.0023),
)
REFUSES = Looked(
    Kind.TCP,
    "10.0.0.9:2049",
    Source(BACKEND, place="10.0.0.9:2049"),
    Observation(Outcome.ERROR, Reason.ENDPOINT_REFUSED, REFUSED),
    Level(State.UNHEALTHY, Reason.ENDPOINT_REFUSED, REFUSED),
)
HANGS = Looked(
    Kind.MOUNT,
    "0:51",
    Source(BACKEND, ("pvc-1",), place=MOUNT),
    Observation(Outcome.TIMEOUT, Reason.MOUNT_HUNG, "no answer for 5 s"),
    None,
)
UNREAD = Looked(Kind.FLAGS, "0:51", Source(BACKEND, place=MOUNT), not_run("mountinfo cannot be read"), None)


def report(*looked: Looked, storages: tuple[StorageStatus, ...] = (), **more) -> CheckReport:
    """A pass over node `worker-1`."""
    return CheckReport("worker-1", 1_790_000_000.0, 3.21, storages, looked, **more)


FULL = report(
    UNREAD,
    HANGS,
    REFUSES,
    ANSWERS,
    storages=(
        StorageStatus(BACKEND, State.UNHEALTHY, Reason.ENDPOINT_REFUSED, message=REFUSED, used=0.873, inodes_used=0.02),
        StorageStatus(DRIVER, State.DEGRADED, Reason.ENDPOINT_REFUSED, message="1 of 1 backends unhealthy"),
    ),
    bad_volumes=(VolumeStatus("nfs.csi.k8s.io", "pvc-2", State.UNHEALTHY, Reason.STALE_FILE_HANDLE, "stat: stale"),),
    facts={"memory.total": 8e9, "cpu.busy": 0.251234, "gpu.driver": "550.1"},
    skipped=(Skipped("canary_io", "no canary is configured"),),
)


@pytest.mark.parametrize(
    ("states", "code"),
    [
        ((), ExitCode.HEALTHY),
        (("HEALTHY", "NOT_APPLICABLE"), ExitCode.HEALTHY),
        (("HEALTHY", "UNKNOWN"), ExitCode.UNKNOWN),
        (("UNKNOWN", "DEGRADED"), ExitCode.DEGRADED),
        (("DEGRADED", "UNHEALTHY", "UNKNOWN"), ExitCode.UNHEALTHY),
    ],
)
def test_the_exit_code_is_that_of_the_worst_state(states: tuple[str, ...], code: ExitCode) -> None:
    """A script asks no more than whether it is 0."""
    statuses = tuple(StorageStatus(StorageKey(f"d{n}"), State(state)) for n, state in enumerate(states))
    assert report(storages=statuses).exit_code is code


def test_the_numbers_of_exit_codes_stay() -> None:
    """Scripts rely on them, and the help names each."""
    numbers = {code.name: code.value for code in ExitCode}
    assert numbers == {"HEALTHY": 0, "UNHEALTHY": 1, "USAGE": 2, "DEGRADED": 3, "UNKNOWN": 4, "FAILED": 5}
    assert all(f"{code.value} " in EXIT_CODES for code in ExitCode)


def test_a_dead_address_of_a_backend_that_works_does_not_decide() -> None:
    """The storage's own state counts; a look counts by itself only where no storage is listed for it."""
    works = report(REFUSES, storages=(StorageStatus(BACKEND, State.DEGRADED, Reason.PATHS_DEGRADED),))
    assert works.exit_code is ExitCode.DEGRADED
    assert report(REFUSES).exit_code is ExitCode.UNHEALTHY


def test_the_table_has_every_storage_with_the_looks_behind_it() -> None:
    """Storages in order, each followed by its probes, then volumes, facts, what was left out, and one line of sum."""
    assert render_table(FULL).splitlines() == TABLE.strip().splitlines()


TABLE = """
STORAGE / PROBE          STATE      REASON           LATENCY  WHAT
nfs.csi.k8s.io           DEGRADED   EndpointRefused           1 of 1 backends unhealthy
  csi_plugin             HEALTHY                       2.3ms  /var/lib/kubelet/plugins/csi-nfsplugin/csi.sock
nfs.csi.k8s.io/10.0.0.9  UNHEALTHY  EndpointRefused           10.0.0.9:2049 refuses the connection; 87% of space, 2% of inodes in use
  tcp_endpoint           UNHEALTHY  EndpointRefused           10.0.0.9:2049 refuses the connection
  mount_liveness         UNKNOWN    MountHung                 /var/lib/kubel…mes/kubernetes.io~csi/pvc-1/mount: no answer for 5 s
  mount_flags            UNKNOWN    NotObserved               /var/lib/kubel…mes/kubernetes.io~csi/pvc-1/mount: not looked at: mountinfo cannot be read

BAD VOLUME  DRIVER          STATE      REASON           WHAT
pvc-2       nfs.csi.k8s.io  UNHEALTHY  StaleFileHandle  stat: stale

FACT          VALUE
cpu.busy      0.2512
gpu.driver    550.1
memory.total  8000000000

NOT LOOKED AT  WHY
canary_io      no canary is configured

worker-1: UNHEALTHY (1 UNHEALTHY, 1 DEGRADED), 4 looked at in 3.2s; 1 skipped
docs/reasons.md tells what each reason means and what to do
"""  # noqa: E501 - a table as it is printed


def test_json_has_the_documented_shape() -> None:
    """Programs rely on it: keys are only ever added."""
    told = json.loads(render_json(FULL))
    assert {key: told[key] for key in ("v", "node", "taken", "took_s", "state", "exit_code")} == {
        "v": 1,
        "node": "worker-1",
        "taken": "2026-09-21T14:13:20Z",
        "took_s": 3.21,
        "state": "UNHEALTHY",
        "exit_code": 1,
    }
    assert told["storages"][1] == {
        "driver": "nfs.csi.k8s.io",
        "backend": "10.0.0.9",
        "state": "UNHEALTHY",
        "reason": "EndpointRefused",
        "affects": "BOTH",
        "message": REFUSED,
        "latency_s": None,
        "used": 0.873,
        "inodes_used": 0.02,
    }
    assert told["bad_volumes"] == [
        {
            "driver": "nfs.csi.k8s.io",
            "volume": "pvc-2",
            "state": "UNHEALTHY",
            "reason": "StaleFileHandle",
            "affects": "EXISTING_MOUNTS",
            "message": "stat: stale",
        }
    ]
    assert [look["probe"] for look in told["looks"]] == ["csi_plugin", "tcp_endpoint", "mount_liveness", "mount_flags"]
    assert told["looks"][2] == {
        "probe": "mount_liveness",
        "driver": "nfs.csi.k8s.io",
        "backend": "10.0.0.9",
        "source": "0:51",
        "place": MOUNT,
        "volumes": ["pvc-1"],
        "outcome": "timeout",
        "state": "UNKNOWN",
        "reason": "MountHung",
        "message": "no answer for 5 s",
        "latency_s": None,
    }
    assert told["facts"] == {"cpu.busy": 0.251234, "gpu.driver": "550.1", "memory.total": 8e9}
    assert told["skipped"] == [{"what": "canary_io", "why": "no canary is configured"}]


def test_reasons_are_referred_to_where_there_are_any() -> None:
    """A machine on which all is well needs no reading."""
    assert "docs/reasons.md" in render_table(report(REFUSES))
    assert "docs/reasons.md" not in render_table(report(ANSWERS))


def test_a_machine_without_storage_is_told_so() -> None:
    """Nothing to judge is no fault, but it is not shown as healthy either."""
    bare = report(skipped=(Skipped("csi_plugin", "there is no /var/lib/kubelet"),))
    assert "nothing to judge" in render_table(bare)
    assert "HEALTHY" not in render_table(bare)
    assert json.loads(render_json(bare))["state"] is None
    assert bare.exit_code is ExitCode.HEALTHY


def test_texts_from_outside_cannot_command_the_terminal() -> None:
    """Escape sequences, line breaks, markup and odd bytes are shown as what they are or not at all."""
    place = "/mnt/\x1b[31mred\udcff\n[bold]x[/bold] :smile:"
    look = Looked(Kind.MOUNT, "0:1", Source(BACKEND, place=place), not_run("a\x07b"), None)
    hostile = report(look, facts={"gpu.name\x1b]0;x": "\x9b2J"}, skipped=(Skipped("x\r", "\x00"),))
    table = render_table(hostile, colour=True)
    assert not {"\x07", "\x9b", "\r", "\x00"} & set(table)
    assert "[31mred" not in table.replace("�[31mred", "")
    assert "[bold]x[/bold] :smile:" in table
    assert json.loads(render_json(hostile))["looks"][0]["place"].startswith("/mnt/\x1b[31mred")


def test_colours_are_for_terminals_that_want_them() -> None:
    """https://no-color.org."""
    assert wants_colour({"TERM": "xterm"}, terminal=True)
    assert not wants_colour({"TERM": "xterm"}, terminal=False)
    assert not wants_colour({"NO_COLOR": "1"}, terminal=True)
    assert not wants_colour({"TERM": "dumb"}, terminal=True)
    assert "\x1b[1;31mUNHEALTHY" in render_table(FULL, colour=True)
    assert "\x1b" not in render_table(FULL, colour=False)


@pytest.mark.parametrize("width", [60, 80, 110, 200])
def test_a_narrow_terminal_loses_nothing(width: int) -> None:
    """What does not fit goes on below; states and reasons are never cut."""
    lines = render_table(FULL, width=width).splitlines()
    assert max(map(len, lines)) <= width
    assert sum("UNHEALTHY" in line for line in lines) == 4
    assert sum("EndpointRefused" in line for line in lines) == 3
    assert all(any(word in line for line in lines) for word in ("2.3ms", "pvc-2", "canary_io", "8000000000"))


def test_a_long_path_keeps_its_end() -> None:
    """The end tells which volume it is."""
    assert shorten("/short") == "/short"
    assert len(shorten(MOUNT)) == 48
    assert shorten(MOUNT).endswith("kubernetes.io~csi/pvc-1/mount")
