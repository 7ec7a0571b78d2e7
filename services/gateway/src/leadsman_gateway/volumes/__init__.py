"""Which storage a pod needs, which backends the cluster has, and waking rejected pods through the API server."""

from leadsman_gateway.volumes.api_server import ApiServerCatalogue
from leadsman_gateway.volumes.backends import backend_list
from leadsman_gateway.volumes.catalogue import Catalogue
from leadsman_gateway.volumes.manifests import ManifestCatalogue
from leadsman_gateway.volumes.records import ObjectRef
from leadsman_gateway.volumes.resolve import Resolution, VolumeResolver, annotated_near, needs_storage
from leadsman_gateway.volumes.wake import WakeError, WakeObject

__all__ = [
    "ApiServerCatalogue",
    "Catalogue",
    "ManifestCatalogue",
    "ObjectRef",
    "Resolution",
    "VolumeResolver",
    "WakeError",
    "WakeObject",
    "annotated_near",
    "backend_list",
    "needs_storage",
]
