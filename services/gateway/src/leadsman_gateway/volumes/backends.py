"""The list of backends that the cluster's volumes use, which tells collectors what to probe."""

from collections.abc import Iterator, Mapping

from leadsman.wire.notices import Backend, BackendList
from leadsman_gateway.volumes.catalogue import Catalogue
from leadsman_gateway.volumes.naming import BackendNames

MAX_ENDPOINTS = 16
"""Addresses per backend; a backend with more is not one that a node has to probe address by address."""


def backend_list(catalogue: Catalogue, backend_attributes: Mapping[str, str]) -> BackendList:
    """Every (driver, backend) of persistent volumes and storage classes, sorted, with the addresses that are known.

    Drivers without a named backend are not listed: collectors find drivers by themselves. About a microsecond per
    volume; call it on change, not per request.
    """
    names = BackendNames(backend_attributes)
    found: dict[tuple[str, str], set[str]] = {}
    seen: set[tuple[str, str, tuple[str, ...], str]] = set()
    for driver, attributes, mount_options in _sources(catalogue):
        backend = names.name(driver, attributes)
        if not backend:
            continue
        # Thousands of volumes share a backend; their addresses are worked out once.
        signature = (driver, backend, mount_options, attributes.get("portals", ""))
        if signature in seen:
            continue
        seen.add(signature)
        found.setdefault((driver, backend), set()).update(names.endpoints(driver, attributes, mount_options))
    return BackendList(
        [
            Backend(driver=driver, backend=backend, endpoints=sorted(endpoints)[:MAX_ENDPOINTS])
            for (driver, backend), endpoints in sorted(found.items())
        ]
    )


def _sources(catalogue: Catalogue) -> Iterator[tuple[str, Mapping[str, str], tuple[str, ...]]]:
    """Driver, attributes and mount options of whatever has a driver."""
    for volume in catalogue.volumes():
        if volume.driver:
            yield volume.driver, volume.attributes, volume.mount_options
    for storage_class in catalogue.storage_classes():
        if storage_class.driver:
            yield storage_class.driver, storage_class.parameters, storage_class.mount_options
