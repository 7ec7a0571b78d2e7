"""Small JSON bodies on the bus: wake-ups of rejected pods, the backends that the cluster uses, the policy in force."""

import msgspec

from leadsman.wire.errors import WireError


class WakeNotice(msgspec.Struct, frozen=True):
    """A filter replica's rejected set has shrunk, and the new set is already in force there.

    `instance` and `generation` name the change; two gateways that saw the same notice write the same value, so the
    API server sees one change.
    """

    instance: str
    generation: int
    storages: list[str] = []


class Backend(msgspec.Struct, frozen=True):
    """One backend that volumes of the cluster use, with the addresses (`host:port`) a node must reach."""

    driver: str
    backend: str
    endpoints: list[str] = []


class BackendList(msgspec.Struct, frozen=True):
    """Everything that `leadsman.v1.backends` carries: the whole list, on change and every 30 s."""

    backends: list[Backend]
    v: int = 1


class PolicyInForce(msgspec.Struct, frozen=True):
    """What a filter or scorer answers to a request on `leadsman.v1.policy`: the document that it works by.

    `component` is `filter` or `scorer`, `text` the whole YAML document, empty for the built-in policy. `refused` says
    what is wrong with a newer version that could not be taken.
    """

    instance: str
    component: str
    fingerprint: str
    text: str
    refused: str = ""


_wake = msgspec.json.Decoder(WakeNotice)
_backends = msgspec.json.Decoder(BackendList)
_policy = msgspec.json.Decoder(PolicyInForce)
_encoder = msgspec.json.Encoder()


def encode_notice(notice: WakeNotice | BackendList | PolicyInForce) -> bytes:
    """The JSON body of `notice`."""
    return _encoder.encode(notice)


def decode_wake(body: bytes) -> WakeNotice:
    """The wake-up in `body`.

    Raises:
        WireError: the body is not a wake notice.
    """
    try:
        return _wake.decode(body)
    except msgspec.DecodeError as error:
        raise WireError(f"not a wake notice: {error}") from error


def decode_backends(body: bytes) -> BackendList:
    """The backend list in `body`.

    Raises:
        WireError: the body is not a backend list of version 1.
    """
    try:
        listed = _backends.decode(body)
    except msgspec.DecodeError as error:
        raise WireError(f"not a backend list: {error}") from error
    if listed.v != 1:
        raise WireError(f"backend list of version {listed.v}; this build reads version 1")
    return listed


def decode_policy(body: bytes) -> PolicyInForce:
    """The policy in force in `body`.

    Raises:
        WireError: the body is not such an answer.
    """
    try:
        return _policy.decode(body)
    except msgspec.DecodeError as error:
        raise WireError(f"not a policy in force: {error}") from error
