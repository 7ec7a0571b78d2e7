"""What one run leaves to the next."""

import dataclasses
import os

import pytest
from prometheus_client import CollectorRegistry

from leadsman.domain.reasons import Reason
from leadsman.domain.report import NodeReport, Sequence, StorageKey, StorageStatus
from leadsman.domain.states import State
from leadsman.testing.clock import FakeClock
from leadsman_health_collector.endpoints import Endpoint
from leadsman_health_collector.metrics import CollectorMetrics
from leadsman_health_collector.state_file import Remembered, StateFile

STATUS = StorageStatus(StorageKey("d", "b"), State.UNHEALTHY, Reason.MOUNT_HUNG, message="hung", since_epoch_s=7.0)
REPORT = NodeReport("node-1", Sequence(1, 2), 10.0, (STATUS,), labels={"zone": "a"})
KNOWN = Remembered(REPORT, {"/p/csi.sock": "d"}, (Endpoint(StorageKey("d", "b"), "10.0.0.9", 2049),))


class Machine:
    """One boot of a node with a place for the file."""

    def __init__(self, directory) -> None:
        self.clock = FakeClock()
        self.path = directory / "state.json"
        self.boot_id = "boot-1"
        self.registry = CollectorRegistry()
        self._metrics = CollectorMetrics(self.registry)

    def start(self) -> tuple[StateFile, Remembered]:
        file = StateFile(self.path, "node-1", self.boot_id, self.clock, self._metrics)
        return file, file.load()

    def errors(self, operation: str) -> float | None:
        return self.registry.get_sample_value("leadsman_collector_state_file_errors_total", {"operation": operation})


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_the_next_run_gets_everything_back_and_a_higher_number(machine):
    """Statuses, drivers by socket, endpoints; the epoch rises even within one millisecond."""
    file, remembered = machine.start()
    assert remembered == Remembered()
    file.save(KNOWN)
    again, resumed = machine.start()
    assert resumed.report.storages[0].message == "hung"
    assert resumed == KNOWN
    assert again.epoch == file.epoch + 1


def test_the_epoch_rises_though_the_clock_went_back(machine, tmp_path):
    """Receivers drop reports of a lower epoch: the node would be deaf for hours."""
    machine.clock.advance(1e6)
    file, _ = machine.start()
    file.save(KNOWN)
    machine.clock.advance(-999_990)
    again, resumed = machine.start()
    assert again.epoch == file.epoch + 1
    assert resumed == Remembered()


@pytest.mark.parametrize(("seconds", "resumed"), [(299, True), (301, False)])
def test_what_is_older_than_five_minutes_is_history(machine, seconds, resumed):
    """The world has moved on; the number still counts, and a driver frozen since then still needs its name."""
    file, _ = machine.start()
    file.save(KNOWN)
    machine.clock.advance(seconds)
    again, remembered = machine.start()
    assert bool(remembered.report) is bool(remembered.endpoints) is resumed
    assert remembered.drivers == KNOWN.drivers
    assert again.epoch > file.epoch


def test_another_boot_starts_afresh(machine):
    """Mounts and drivers are not what they were."""
    machine.start()[0].save(KNOWN)
    machine.boot_id = "boot-2"
    assert machine.start()[1] == Remembered()


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"v": 2}', b"\xff\xfe", b'{"v":1,"node":"n"}'])
def test_a_corrupt_file_is_ignored_and_counted(machine, body):
    """A full disk or a foreign hand must not keep the collector from starting."""
    machine.path.write_bytes(body)
    assert machine.start()[1] == Remembered()
    assert machine.errors("read") == 1


def test_a_file_of_a_newer_version_or_with_a_broken_report_is_ignored(machine):
    """The envelope may be fine while the letter is not."""
    file, _ = machine.start()
    file.save(KNOWN)
    good = machine.path.read_bytes()
    for bad in (good.replace(b'"v":1', b'"v":9', 1), good.replace(b'"report":{"v":1', b'"report":{"v":9')):
        machine.path.write_bytes(bad)
        assert machine.start()[1] == Remembered()
    assert machine.errors("read") == 2


def test_a_failed_write_is_counted_and_leaves_the_old_file(machine, tmp_path):
    """Never half a file, never an exception, never litter."""
    file, _ = machine.start()
    file.save(KNOWN)
    before = machine.path.read_bytes()
    blocker = tmp_path / f".{machine.path.name}.{os.getpid()}"
    blocker.mkdir()
    file.save(Remembered())
    blocker.rmdir()
    assert machine.path.read_bytes() == before
    assert machine.errors("write") == 1
    file.save(Remembered())
    assert machine.path.read_bytes() != before
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_a_missing_directory_is_made(machine, tmp_path):
    """The default one does not exist on a fresh node."""
    machine.path = tmp_path / "leadsman" / "health-collector" / "state.json"
    file, remembered = machine.start()
    assert remembered == Remembered()
    file.save(KNOWN)
    assert file.trouble == ""
    assert machine.start()[1] == KNOWN


def test_what_is_wrong_with_the_file_is_told_until_it_is_written(machine, tmp_path):
    """Nothing that a restart would cost is hidden."""
    machine.path = tmp_path / "place" / "state.json"
    machine.path.parent.touch()
    file, remembered = machine.start()
    assert remembered == Remembered()
    assert "cannot be used" in file.trouble
    file.save(KNOWN)
    assert "cannot be written" in file.trouble
    machine.path.parent.unlink()
    file.save(KNOWN)
    assert file.trouble == ""


def test_the_file_is_written_when_something_changes_and_else_once_a_minute(machine):
    """A disk that is slow must not be written to for every look; what a restart needs is never late."""
    file, _ = machine.start()
    file.save(KNOWN)
    machine.path.unlink()
    machine.clock.advance(59)
    worded = dataclasses.replace(REPORT, storages=(STATUS._replace(message="other words", latency_s=0.5),))
    file.save(dataclasses.replace(KNOWN, report=worded))
    assert not machine.path.exists()
    file.save(dataclasses.replace(KNOWN, report=dataclasses.replace(REPORT, storages=())))
    assert machine.path.exists()
    file.save(KNOWN)
    machine.path.unlink()
    machine.clock.advance(60)
    file.save(KNOWN)
    assert machine.path.exists()
