"""The closed set of reasons: one name used in replies, metrics, spans, logs, documents and the CLI.

Reply texts follow a count ("3 node(s) had ...") and must be byte-identical on every replica and attempt: a number or
a name that changes makes kube-scheduler retry without end (measured: 155 calls in 8 s).
"""

from enum import StrEnum

from leadsman.domain.states import Evidence


class Reason(StrEnum):
    """Why a state is not HEALTHY, or why a node is rejected. CamelCase, stable for ever."""

    DRIVER_NOT_REGISTERED = "DriverNotRegistered"
    DRIVER_SOCKET_MISSING = "DriverSocketMissing"
    DRIVER_NOT_RESPONDING = "DriverNotResponding"
    DRIVER_STARTING = "DriverStarting"
    ENDPOINT_REFUSED = "EndpointRefused"
    ENDPOINT_TIMEOUT = "EndpointTimeout"
    PROTOCOL_TIMEOUT = "ProtocolTimeout"
    NAME_RESOLUTION_FAILED = "NameResolutionFailed"
    MOUNT_HUNG = "MountHung"
    STALE_FILE_HANDLE = "StaleFileHandle"
    MOUNT_DISCONNECTED = "MountDisconnected"
    MOUNT_IO_ERROR = "MountIOError"
    ACCESS_REVOKED = "AccessRevoked"
    READ_ONLY_FILESYSTEM = "ReadOnlyFilesystem"
    FILESYSTEM_ERRORS = "FilesystemErrors"
    PATHS_DEGRADED = "PathsDegraded"
    ALL_PATHS_DOWN = "AllPathsDown"
    HIGH_LATENCY = "HighLatency"
    IO_PRESSURE = "IOPressure"
    CAPACITY_LOW = "CapacityLow"
    KERNEL_SUPPORT_MISSING = "KernelSupportMissing"
    STORAGE_UNREACHABLE = "StorageUnreachable"
    STORAGE_DEGRADED = "StorageDegraded"
    VOLUME_UNHEALTHY = "VolumeUnhealthy"
    FLAPPING = "Flapping"
    RULE_NOT_MET = "RuleNotMet"
    RULE_UNDECIDED = "RuleUndecided"
    STALE = "Stale"
    NOT_OBSERVED = "NotObserved"
    VERDICT_UNAVAILABLE = "VerdictUnavailable"
    UNRECOGNISED = "Unrecognised"

    @classmethod
    def parse(cls, text: str) -> "Reason":
        """The reason called `text`; UNRECOGNISED for one that only a newer version knows."""
        return _REASONS.get(text, cls.UNRECOGNISED)


class Scope(StrEnum):
    """Which mounts of a storage its fault touches. NONE: the reason is about our knowledge, not about mounts."""

    NEW_MOUNTS = "NEW_MOUNTS"
    EXISTING_MOUNTS = "EXISTING_MOUNTS"
    BOTH = "BOTH"
    NONE = "NONE"


_REASONS = {reason.value: reason for reason in Reason}

_PHRASES = {
    Reason.DRIVER_NOT_REGISTERED: "no registered CSI driver",
    Reason.DRIVER_SOCKET_MISSING: "no CSI driver socket",
    Reason.DRIVER_NOT_RESPONDING: "an unresponsive CSI driver",
    Reason.DRIVER_STARTING: "a CSI driver that is still starting",
    Reason.ENDPOINT_REFUSED: "a storage backend that refuses connections",
    Reason.ENDPOINT_TIMEOUT: "an unreachable storage backend",
    Reason.PROTOCOL_TIMEOUT: "a storage backend that does not answer",
    Reason.NAME_RESOLUTION_FAILED: "an unresolvable storage backend name",
    Reason.MOUNT_HUNG: "a hung storage mount",
    Reason.STALE_FILE_HANDLE: "a stale storage mount",
    Reason.MOUNT_DISCONNECTED: "a disconnected storage mount",
    Reason.MOUNT_IO_ERROR: "a storage mount with IO errors",
    Reason.ACCESS_REVOKED: "revoked access to the storage",
    Reason.READ_ONLY_FILESYSTEM: "a read-only storage filesystem",
    Reason.FILESYSTEM_ERRORS: "storage filesystem errors",
    Reason.PATHS_DEGRADED: "degraded storage paths",
    Reason.ALL_PATHS_DOWN: "no working storage path",
    Reason.HIGH_LATENCY: "slow storage",
    Reason.IO_PRESSURE: "storage under IO pressure",
    Reason.CAPACITY_LOW: "too little free storage",
    Reason.KERNEL_SUPPORT_MISSING: "no kernel support for the storage",
    Reason.STORAGE_UNREACHABLE: "storage that its CSI driver cannot reach",
    Reason.STORAGE_DEGRADED: "storage that its CSI driver calls degraded",
    Reason.VOLUME_UNHEALTHY: "a volume that its CSI driver calls unhealthy",
    Reason.FLAPPING: "unstable storage",
    Reason.RULE_NOT_MET: "no match for the policy rule",
    Reason.RULE_UNDECIDED: "no facts to decide the policy rule",
    Reason.STALE: "no recent storage report",
    Reason.NOT_OBSERVED: "no storage report",
    Reason.VERDICT_UNAVAILABLE: "no storage verdict",
    Reason.UNRECOGNISED: "broken storage",
}

_DATA_PATH = frozenset(
    {
        Reason.ENDPOINT_REFUSED,
        Reason.ENDPOINT_TIMEOUT,
        Reason.PROTOCOL_TIMEOUT,
        Reason.MOUNT_HUNG,
        Reason.STALE_FILE_HANDLE,
        Reason.MOUNT_DISCONNECTED,
        Reason.MOUNT_IO_ERROR,
        Reason.ACCESS_REVOKED,
        Reason.READ_ONLY_FILESYSTEM,
        Reason.FILESYSTEM_ERRORS,
        Reason.PATHS_DEGRADED,
        Reason.ALL_PATHS_DOWN,
        Reason.HIGH_LATENCY,
        Reason.IO_PRESSURE,
        Reason.CAPACITY_LOW,
        Reason.STORAGE_UNREACHABLE,
        Reason.STORAGE_DEGRADED,
        Reason.VOLUME_UNHEALTHY,
    }
)


def reply_text(reason: Reason, subject: str) -> str:
    """The text kube-scheduler shows for a rejected node, made to follow a count: `node(s) had <what> (<subject>)`.

    `subject` is a CSI driver's name, or a policy rule's for the two reasons about rules.
    """
    return f"node(s) had {_PHRASES[reason]} ({subject})"


def evidence_of(reason: Reason) -> Evidence:
    """The class of evidence that `reason` rests on."""
    return Evidence.DATA_PATH if reason in _DATA_PATH else Evidence.CONTROL_PLANE


_ONLY_NEW_MOUNTS = frozenset(
    {
        Reason.DRIVER_NOT_REGISTERED,
        Reason.DRIVER_SOCKET_MISSING,
        Reason.DRIVER_NOT_RESPONDING,
        Reason.DRIVER_STARTING,
        Reason.NAME_RESOLUTION_FAILED,
        Reason.KERNEL_SUPPORT_MISSING,
    }
)

_ONLY_EXISTING_MOUNTS = frozenset(
    {
        Reason.STALE_FILE_HANDLE,
        Reason.MOUNT_DISCONNECTED,
        Reason.MOUNT_IO_ERROR,
        Reason.READ_ONLY_FILESYSTEM,
        Reason.FILESYSTEM_ERRORS,
        Reason.HIGH_LATENCY,
        Reason.IO_PRESSURE,
    }
)

_NO_MOUNTS = frozenset(
    {
        Reason.RULE_NOT_MET,
        Reason.RULE_UNDECIDED,
        Reason.STALE,
        Reason.NOT_OBSERVED,
        Reason.VERDICT_UNAVAILABLE,
    }
)


def scope_of(reason: Reason) -> Scope:
    """Which mounts `reason` touches (facts: storage-health 2); BOTH for one of a newer version, the safer reading."""
    if reason in _NO_MOUNTS:
        return Scope.NONE
    if reason in _ONLY_NEW_MOUNTS:
        return Scope.NEW_MOUNTS
    return Scope.EXISTING_MOUNTS if reason in _ONLY_EXISTING_MOUNTS else Scope.BOTH
