from leadsman.v1 import requirements_pb2 as _requirements_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FilterRequest(_message.Message):
    __slots__ = ("id", "profile", "requirements", "known_generation", "traceparent")
    ID_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    REQUIREMENTS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_GENERATION_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    id: int
    profile: _requirements_pb2.Profile
    requirements: _containers.RepeatedCompositeFieldContainer[_requirements_pb2.Requirement]
    known_generation: int
    traceparent: str
    def __init__(self, id: _Optional[int] = ..., profile: _Optional[_Union[_requirements_pb2.Profile, _Mapping]] = ..., requirements: _Optional[_Iterable[_Union[_requirements_pb2.Requirement, _Mapping]]] = ..., known_generation: _Optional[int] = ..., traceparent: _Optional[str] = ...) -> None: ...

class FilterResponse(_message.Message):
    __slots__ = ("id", "generation", "hello", "unchanged", "rejected", "allowed", "frozen", "volumes")
    ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    FROZEN_FIELD_NUMBER: _ClassVar[int]
    VOLUMES_FIELD_NUMBER: _ClassVar[int]
    id: int
    generation: int
    hello: _requirements_pb2.Hello
    unchanged: _requirements_pb2.Unchanged
    rejected: NodeReasons
    allowed: AllowedNodes
    frozen: bool
    volumes: NodeReasons
    def __init__(self, id: _Optional[int] = ..., generation: _Optional[int] = ..., hello: _Optional[_Union[_requirements_pb2.Hello, _Mapping]] = ..., unchanged: _Optional[_Union[_requirements_pb2.Unchanged, _Mapping]] = ..., rejected: _Optional[_Union[NodeReasons, _Mapping]] = ..., allowed: _Optional[_Union[AllowedNodes, _Mapping]] = ..., frozen: _Optional[bool] = ..., volumes: _Optional[_Union[NodeReasons, _Mapping]] = ...) -> None: ...

class NodeReasons(_message.Message):
    __slots__ = ("reasons", "drivers", "nodes", "reason_index")
    REASONS_FIELD_NUMBER: _ClassVar[int]
    DRIVERS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    REASON_INDEX_FIELD_NUMBER: _ClassVar[int]
    reasons: _containers.RepeatedScalarFieldContainer[str]
    drivers: _containers.RepeatedScalarFieldContainer[str]
    nodes: str
    reason_index: bytes
    def __init__(self, reasons: _Optional[_Iterable[str]] = ..., drivers: _Optional[_Iterable[str]] = ..., nodes: _Optional[str] = ..., reason_index: _Optional[bytes] = ...) -> None: ...

class AllowedNodes(_message.Message):
    __slots__ = ("nodes", "rejected", "reason", "driver")
    NODES_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DRIVER_FIELD_NUMBER: _ClassVar[int]
    nodes: str
    rejected: NodeReasons
    reason: str
    driver: str
    def __init__(self, nodes: _Optional[str] = ..., rejected: _Optional[_Union[NodeReasons, _Mapping]] = ..., reason: _Optional[str] = ..., driver: _Optional[str] = ...) -> None: ...
