"""The memory of a catalogue: what counts as a change."""

import pytest

from leadsman_gateway.volumes.catalogue import Store
from leadsman_gateway.volumes.records import Claim, Volume


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def calls(store):
    seen = []
    store.on_change(lambda: seen.append(store.generation))
    return seen


def test_equal_record_is_no_change(store, calls):
    """A status update leaves the record as it was, and nobody is called."""
    assert store.put(Claim("n", "c", volume="pv"))
    assert not store.put(Claim("n", "c", volume="pv"))
    assert store.put(Claim("n", "c", volume="pv-2"))
    assert calls == [1, 2]


def test_unknown_record_is_not_dropped(store, calls):
    """A deletion of what we never had changes nothing."""
    assert not store.drop("PersistentVolume", ("", "pv"))
    store.put(Volume("pv", "d"))
    assert store.drop("PersistentVolume", ("", "pv"))
    assert calls == [1, 2]


def test_replacing_by_the_same_is_no_change(store, calls):
    """A fresh list of an unchanged cluster calls nobody; other kinds are left alone."""
    store.put(Volume("pv", "d"))
    records = {("n", "c"): Claim("n", "c")}

    assert store.replace("PersistentVolumeClaim", records)
    assert not store.replace("PersistentVolumeClaim", dict(records))
    assert store.replace("PersistentVolumeClaim", {})
    assert calls == [1, 2, 3]
    assert store.count("PersistentVolume") == 1
