from leadsman.bus.settings import BusSettings
from leadsman.bus.snapshot import StreamFacts
from leadsman.telemetry.throttle import Throttle


def test_shown_addresses_hold_no_secrets():
    """What goes to logs and errors has neither passwords nor tokens."""
    settings = BusSettings(("nats://user:pass@nats:4333", "token@other", "nats://[::1"), "filter")
    assert settings.shown_urls == "nats://nats:4333, nats://other:4222, (unreadable address)"


def test_the_inbox_belongs_to_the_role():
    """Server permissions can be written per role, whatever the replica is called."""
    assert BusSettings((), "filter/leadsman-filter-abc.1").inbox_prefix == "_INBOX_filter"
    assert BusSettings((), "a.b>/x").inbox_prefix == "_INBOX_a_b_"


def test_collectors_are_gentler_than_services():
    """Thousands of nodes ping rarely, come back spread out and keep no backlog; replicas notice and return at once."""
    service = BusSettings.for_service(("nats://x",), "filter")
    collector = BusSettings.for_collector(("nats://x",), "collector/node-1")
    assert service.ping_interval_s < collector.ping_interval_s
    assert service.reconnect_jitter_s < 1 < collector.reconnect_jitter_s
    assert collector.pending_bytes == 32 * 1024


def test_a_throttle_lets_one_event_per_key_and_period_pass():
    """Floods are counted, not logged."""
    throttle = Throttle(period_s=30.0)
    assert throttle.allows("malformed", 0.0)
    assert not throttle.allows("malformed", 29.0)
    assert throttle.allows("old", 29.0)
    assert throttle.allows("malformed", 30.0)


def test_stream_facts_tell_a_new_or_rolled_back_stream():
    """Another creation time is a new stream; a smaller last sequence means that writes were lost."""
    before = StreamFacts("2026-01-01T00:00:00Z", 100, 0.0)
    assert before.reset_since(None) is None
    assert StreamFacts(before.created, 100, 1.0).reset_since(before) is None
    assert StreamFacts("2026-01-02T00:00:00Z", 200, 1.0).reset_since(before) == "recreated"
    assert StreamFacts(before.created, 99, 1.0).reset_since(before) == "rolled_back"
