"""Whether a collector does all that it is measured for, by its own metrics. Pure."""

from collections.abc import Collection, Iterator

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from leadsman_bench.reach_world import Driver

_ASKED = ("protocol_ping", "tcp_endpoint")
_WATCHES = 3


def shortcomings(metrics: str, drivers: Collection[Driver], *, api: bool) -> list[str]:
    """What is missing or not well, in words for people; nothing once every part of the node is looked at and healthy.

    `metrics` is the collector's page of that name.
    """
    samples = [sample for family in text_string_to_metric_families(metrics) for sample in family.samples]
    volumes = sum(len(driver.volumes) for driver in drivers)
    servers = sum(len(driver.servers) for driver in drivers)
    return [
        *_fewer("drivers", _sources(samples, {"csi_plugin"}), len(drivers)),
        *_fewer("mounts", _sources(samples, {"mount_liveness"}), volumes),
        *_fewer("endpoints", _sources(samples, _ASKED), servers),
        *_fewer("watches of the API server", _sum(samples, "leadsman_collector_kube_watch_up"), _WATCHES if api else 0),
        *_unwell(samples),
    ]


def _sources(samples: Collection[Sample], probes: Collection[str]) -> float:
    found = [one for one in samples if one.name == "leadsman_collector_sources" and one.labels["probe"] in probes]
    return sum(one.value for one in found)


def _sum(samples: Collection[Sample], name: str) -> float:
    return sum(one.value for one in samples if one.name == name)


def _fewer(what: str, found: float, wanted: int) -> Iterator[str]:
    if found < wanted:
        yield f"{found:g} of {wanted} {what}"


def _unwell(samples: Collection[Sample]) -> Iterator[str]:
    for one in samples:
        if one.name == "leadsman_collector_storage_state" and one.value and one.labels["state"] != "HEALTHY":
            yield f"{one.labels['driver']} {one.labels['backend']} is {one.labels['state']}"
