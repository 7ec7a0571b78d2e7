"""In-tree volume sources in the terms of CSI drivers.

Names: `pkg/plugins` of kubernetes/csi-translation-lib, v0.22 to v0.37. A source that never moved to CSI keeps its
plugin's name as driver name, so that it can be probed and named in a policy like any other.
"""

from collections.abc import Mapping
from typing import Any

NFS = "kubernetes.io/nfs"
ISCSI = "kubernetes.io/iscsi"
NO_PROVISIONER = "kubernetes.io/no-provisioner"

MIGRATED: dict[str, str] = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
    # In the library from 1.25 to 1.30 only; clusters of that age still run.
    "kubernetes.io/rbd": "rbd.csi.ceph.com",
}

PLUGIN_OF_FIELD: dict[str, str] = {
    "nfs": NFS,
    "aws_elastic_block_store": "kubernetes.io/aws-ebs",
    "gce_persistent_disk": "kubernetes.io/gce-pd",
    "azure_disk": "kubernetes.io/azure-disk",
    "azure_file": "kubernetes.io/azure-file",
    "cinder": "kubernetes.io/cinder",
    "vsphere_volume": "kubernetes.io/vsphere-volume",
    "portworx_volume": "kubernetes.io/portworx-volume",
    "rbd": "kubernetes.io/rbd",
    "cephfs": "kubernetes.io/cephfs",
    "iscsi": ISCSI,
    "fc": "kubernetes.io/fc",
    "glusterfs": "kubernetes.io/glusterfs",
}
"""Field of a volume source, as our structs spell it, to the in-tree plugin that served it."""

_NONE: dict[str, str] = {}


def driver_of_plugin(plugin: str) -> str:
    """The CSI driver that took over `plugin`; any other name, CSI drivers' included, is returned as it is."""
    return MIGRATED.get(plugin, plugin)


def driver_of_provisioner(provisioner: str) -> str:
    """The driver behind a StorageClass's provisioner; empty when the class provisions nothing."""
    return "" if provisioner == NO_PROVISIONER else driver_of_plugin(provisioner)


def attributes_of(plugin: str, source: Mapping[str, Any]) -> dict[str, str]:
    """What names the backend of an in-tree source, under the keys that CSI drivers use for the same thing.

    `source` has the API's own keys (camelCase).
    """
    if plugin == NFS:
        return {"server": str(source.get("server", "")), "share": str(source.get("path", ""))}
    if plugin == ISCSI:
        portals = [str(portal) for portal in source.get("portals") or ()]
        return {"portal": str(source.get("targetPortal", "")), "portals": ",".join(portals)}
    return _NONE
