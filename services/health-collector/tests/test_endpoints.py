"""Which addresses a node looks at."""

from collections.abc import Collection, Sequence

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from leadsman.config import DocumentError
from leadsman.domain.report import StorageKey
from leadsman.testing.clock import FakeClock
from leadsman.wire.notices import Backend, BackendList, encode_notice
from leadsman_health_collector.announced import EndpointDirectory
from leadsman_health_collector.config_file import load_config
from leadsman_health_collector.endpoints import (
    MAX_ENDPOINTS,
    TCP_ONLY,
    Endpoint,
    choose_endpoints,
    parse_endpoint,
    protocol_of,
)
from leadsman_health_collector.metrics import CollectorMetrics

KEY = StorageKey("nfs.csi.k8s.io", "10.0.0.9")


class Message:
    def __init__(self, data: bytes) -> None:
        self.data = data


def endpoint(key: StorageKey = KEY, address: str = "10.0.0.9:2049") -> Endpoint:
    found = parse_endpoint(key, address)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("10.0.0.9:2049", ("10.0.0.9", 2049)),
        ("nfs.example.com:2049", ("nfs.example.com", 2049)),
        ("[fd00::9]:2049", ("fd00::9", 2049)),
        ("fd00::9:2049", None),
        ("10.0.0.9", None),
        ("10.0.0.9:0", None),
        ("10.0.0.9:65536", None),
        (":2049", None),
        ("a b:1", None),
        ("http://x:1", None),
        ("[fe80::9%eth0]:2049", ("fe80::9%eth0", 2049)),
        ("[fe80::9%]:2049", None),
        ("10.0.0.9:2049\n", None),
        ("-x:2049", None),
        ("a" * 300 + ":2049", None),
    ],
)
def test_addresses(address, expected):
    """A host and a port, and nothing that only looks like it."""
    found = parse_endpoint(KEY, address)
    assert (found and (found.host, found.port)) == expected


@pytest.mark.parametrize(
    ("driver", "protocol"),
    [
        ("nfs.csi.k8s.io", "nfs"),
        ("kubernetes.io/nfs", "nfs"),
        ("rbd.csi.ceph.com", "ceph"),
        ("cephfs.csi.ceph.com", "ceph"),
        ("rook-ceph.rbd.csi.ceph.com", "ceph"),
        ("rook-ceph.nfs.csi.ceph.com", "nfs"),
        ("smb.csi.k8s.io", "smb"),
        ("ebs.csi.aws.com", ""),
        ("my-nfs.csi.k8s.io", ""),
        ("", ""),
    ],
)
def test_a_drivers_servers_speak_its_protocol(driver, protocol):
    """Those of an unknown driver are only connected to."""
    assert protocol_of(driver) == protocol
    assert endpoint(StorageKey(driver, "b")).protocol == protocol


def test_a_protocol_can_be_told_and_forbidden():
    """A driver may stand before something else than its name says."""
    assert parse_endpoint(KEY, "10.0.0.9:2049", TCP_ONLY) == Endpoint(KEY, "10.0.0.9", 2049)
    assert parse_endpoint(StorageKey("d", "b"), "s3:443", "https") == Endpoint(StorageKey("d", "b"), "s3", 443, "https")


def test_monitors_need_a_majority_and_other_servers_do_not():
    """Ceph goes on without a minority of its monitors, and not without a majority."""
    assert endpoint(StorageKey("rbd.csi.ceph.com", "c"), "10.0.0.1:3300").quorum
    assert not endpoint().quorum


def chosen(
    configured: Sequence[Endpoint] = (),
    announced: Sequence[Endpoint] = (),
    mounted: Sequence[Endpoint] = (),
    drivers: Collection[str] = ("nfs.csi.k8s.io",),
) -> set[Endpoint]:
    kept, left_out = choose_endpoints(configured, announced, mounted, drivers)
    assert left_out == 0
    assert all(name == one.name for name, one in kept.items())
    return set(kept.values())


def test_announced_endpoints_count_only_where_their_driver_is():
    """In-tree drivers have no plugin and always count; configured ones do too."""
    elsewhere = endpoint(StorageKey("rbd.csi.ceph.com", "x"), "10.0.0.1:6789")
    in_tree = endpoint(StorageKey("kubernetes.io/nfs", "10.0.0.9"))
    assert chosen([], [endpoint(), elsewhere, in_tree]) == {endpoint(), in_tree}
    assert chosen([elsewhere], drivers=()) == {elsewhere}


def test_a_configured_backend_is_looked_at_only_where_the_configuration_says():
    """An address guessed from volume attributes must not make a backend look half broken."""
    guessed, other = endpoint(address="nfs-a:2049"), endpoint(StorageKey("nfs.csi.k8s.io", "b"), "b:2049")
    assert chosen([endpoint()], [guessed, other]) == {endpoint(), other}


def test_a_mounts_address_counts_for_a_backend_of_which_nobody_else_tells():
    """What is announced is what new volumes will use; a mount tells what was true when it was made."""
    old = endpoint(address="10.0.0.1:2049")
    unknown = endpoint(StorageKey("org.example.nfs", "b"), "10.0.0.2:2049")
    assert chosen([], [endpoint()], [old, unknown]) == {endpoint(), unknown}
    assert chosen([endpoint()], [], [old, unknown]) == {endpoint(), unknown}
    assert chosen([], [], [old, unknown], drivers=()) == {old, unknown}


def test_more_endpoints_than_a_report_can_hold_are_left_out_and_those_in_use_stay():
    """A cluster of thousands of backends must neither make the report impossible nor hide what is mounted here."""
    many = [endpoint(StorageKey("kubernetes.io/nfs", f"h{n}"), f"h{n}:1") for n in range(MAX_ENDPOINTS + 10)]
    mounted = [endpoint(StorageKey("org.example", "z"), "z:1"), endpoint(many[-1].key, "10.0.0.1:2049")]
    kept, left_out = choose_endpoints([endpoint()], many, mounted, set())
    assert (len(kept), left_out) == (MAX_ENDPOINTS, 12)
    assert {endpoint().name, mounted[0].name, many[-1].name} <= set(kept)


def directory(metrics: CollectorMetrics, clock: FakeClock | None = None) -> EndpointDirectory:
    return EndpointDirectory((), (), lambda: {"nfs.csi.k8s.io"}, clock or FakeClock(), metrics)


def test_endpoints_of_mounts_come_and_go_with_them():
    """They are asked for anew each time, and never kept for the next run."""
    mounted: list[Endpoint] = []
    endpoints = EndpointDirectory(
        (), (), set, FakeClock(), CollectorMetrics(CollectorRegistry()), mounted=lambda: mounted
    )
    assert endpoints.wanted() == {}
    mounted.append(endpoint())
    assert endpoints.wanted() == {endpoint().name: endpoint()}
    assert endpoints.to_remember == ()
    mounted.clear()
    assert endpoints.wanted() == {}


def test_only_what_was_announced_and_is_looked_at_is_kept_for_the_next_run():
    """The list of a large cluster would not fit into the state file; what is configured is read from its own file."""
    other = StorageKey("other.example.com", "b")
    configured = endpoint(StorageKey("nfs.csi.k8s.io", "10.0.0.8"), "10.0.0.8:2049")
    endpoints = EndpointDirectory(
        (configured,),
        (endpoint(), endpoint(other)),
        lambda: {"nfs.csi.k8s.io"},
        FakeClock(),
        CollectorMetrics(CollectorRegistry()),
    )
    assert len(endpoints.wanted()) == 2
    assert endpoints.to_remember == (endpoint(),)


async def test_a_list_replaces_the_former_one_and_an_unreadable_one_does_not():
    """A gateway with a bug must not make nodes forget their storage."""
    registry = CollectorRegistry()
    endpoints = directory(CollectorMetrics(registry))
    listed = BackendList([Backend("nfs.csi.k8s.io", "10.0.0.9", ["10.0.0.9:2049"])])
    await endpoints.on_backend_list(Message(encode_notice(listed)))
    assert set(endpoints.wanted().values()) == {endpoint()}
    for body in (b"", b"{}", b'{"backends": [], "v": 2}', b"\xff"):
        await endpoints.on_backend_list(Message(body))
    assert set(endpoints.wanted().values()) == {endpoint()}
    assert registry.get_sample_value("leadsman_collector_backend_list_errors_total") == 4
    await endpoints.on_backend_list(Message(encode_notice(BackendList([]))))
    assert endpoints.wanted() == {}


async def test_a_flood_of_unreadable_lists_is_counted_and_does_not_flood_the_log(monkeypatch):
    """Whoever may publish must not be able to fill the node's disk."""
    warnings: list[str] = []
    monkeypatch.setattr("leadsman_health_collector.announced.log.warning", lambda text, **_: warnings.append(text))
    registry, clock = CollectorRegistry(), FakeClock()
    endpoints = directory(CollectorMetrics(registry), clock)
    for _ in range(100):
        await endpoints.on_backend_list(Message(b"{"))
    assert len(warnings) == 1
    assert registry.get_sample_value("leadsman_collector_backend_list_errors_total") == 100
    clock.advance(60)
    await endpoints.on_backend_list(Message(b"{"))
    assert len(warnings) == 2


async def test_unusable_entries_of_a_list_are_counted_and_the_others_used():
    """One bad volume attribute somewhere in the cluster does not blind every node."""
    registry = CollectorRegistry()
    endpoints = directory(CollectorMetrics(registry))
    listed = BackendList(
        [
            Backend("nfs.csi.k8s.io", "10.0.0.9", ["10.0.0.9:2049", "nonsense"]),
            Backend("nfs.csi.k8s.io", "a\nb", ["10.0.0.8:2049"]),
            Backend("nfs.csi.k8s.io", "x" * 300, ["10.0.0.8:2049"]),
        ]
    )
    await endpoints.on_backend_list(Message(encode_notice(listed)))
    assert set(endpoints.wanted().values()) == {endpoint()}
    assert registry.get_sample_value("leadsman_collector_backend_list_errors_total") == 3


HEAD = "apiVersion: leadsman.dev/v1alpha1\nkind: HealthCollectorConfiguration\n"


def test_the_configuration_file_names_endpoints(tmp_path):
    """The documented form."""
    path = tmp_path / "collector.yaml"
    path.write_text(HEAD + "endpoints:\n- {driver: nfs.csi.k8s.io, backend: 10.0.0.9, address: '10.0.0.9:2049'}\n")
    assert load_config(path).endpoints == (endpoint(),)
    assert load_config(None).endpoints == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            HEAD + "endpoints:\n- {driver: d, backend: b, adress: 'x:1'}\n",
            "3: endpoints[0].adress: unknown key; did you mean 'address'?",
        ),
        (HEAD + "endpoints:\n- {driver: d, backend: b, address: x}\n", "4: endpoints[0]: address 'x' is not host:port"),
        (HEAD + "endpoints:\n- {driver: d, backend: '', address: 'x:1'}\n", "driver and backend must not be empty"),
        ("kind: Pod\n", "missing key apiVersion"),
    ],
)
def test_a_wrong_configuration_file_is_refused_with_its_place(tmp_path, text, expected):
    """A typing error must not silently leave a backend unwatched."""
    path = tmp_path / "collector.yaml"
    path.write_text(text)
    with pytest.raises(DocumentError) as caught:
        load_config(path)
    assert expected.removeprefix("3").removeprefix("4") in str(caught.value)


def test_endpoints_survive_the_state_file_format():
    """They are kept between runs; those that an older build kept had no protocol."""
    assert msgspec.json.decode(msgspec.json.encode(endpoint()), type=Endpoint) == endpoint()
    old = b'{"key": ["nfs.csi.k8s.io", "10.0.0.9"], "host": "10.0.0.9", "port": 2049}'
    assert msgspec.json.decode(old, type=Endpoint) == Endpoint(KEY, "10.0.0.9", 2049)
