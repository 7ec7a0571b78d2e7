from leadsman.v1 import requirements_pb2 as _requirements_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FilterRequest(_message.Message):
    __slots__ = ("id", "profile", "requirements", "known_generation", "traceparent", "policy")
    ID_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    REQUIREMENTS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_GENERATION_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    id: int
    profile: _requirements_pb2.Profile
    requirements: _containers.RepeatedCompositeFieldContainer[_requirements_pb2.Requirement]
    known_generation: int
    traceparent: str
    policy: str
    def __init__(self, id: _Optional[int] = ..., profile: _Optional[_Union[_requirements_pb2.Profile, _Mapping]] = ..., requirements: _Optional[_Iterable[_Union[_requirements_pb2.Requirement, _Mapping]]] = ..., known_generation: _Optional[int] = ..., traceparent: _Optional[str] = ..., policy: _Optional[str] = ...) -> None: ...

class FilterResponse(_message.Message):
    __slots__ = ("id", "generation", "hello", "unchanged", "rejected", "allowed", "frozen", "volumes", "shadow", "dry_run", "policy", "degraded")
    ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    FROZEN_FIELD_NUMBER: _ClassVar[int]
    VOLUMES_FIELD_NUMBER: _ClassVar[int]
    SHADOW_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    DEGRADED_FIELD_NUMBER: _ClassVar[int]
    id: int
    generation: int
    hello: _requirements_pb2.Hello
    unchanged: _requirements_pb2.Unchanged
    rejected: NodeReasons
    allowed: AllowedNodes
    frozen: bool
    volumes: NodeReasons
    shadow: ShadowVerdicts
    dry_run: bool
    policy: str
    degraded: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[int] = ..., generation: _Optional[int] = ..., hello: _Optional[_Union[_requirements_pb2.Hello, _Mapping]] = ..., unchanged: _Optional[_Union[_requirements_pb2.Unchanged, _Mapping]] = ..., rejected: _Optional[_Union[NodeReasons, _Mapping]] = ..., allowed: _Optional[_Union[AllowedNodes, _Mapping]] = ..., frozen: _Optional[bool] = ..., volumes: _Optional[_Union[NodeReasons, _Mapping]] = ..., shadow: _Optional[_Union[ShadowVerdicts, _Mapping]] = ..., dry_run: _Optional[bool] = ..., policy: _Optional[str] = ..., degraded: _Optional[_Iterable[str]] = ...) -> None: ...

class ShadowVerdicts(_message.Message):
    __slots__ = ("rejected", "allowed")
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    rejected: NodeReasons
    allowed: AllowedNodes
    def __init__(self, rejected: _Optional[_Union[NodeReasons, _Mapping]] = ..., allowed: _Optional[_Union[AllowedNodes, _Mapping]] = ...) -> None: ...

class NodeReasons(_message.Message):
    __slots__ = ("reasons", "subjects", "nodes", "reason_index", "resolvable")
    REASONS_FIELD_NUMBER: _ClassVar[int]
    SUBJECTS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    REASON_INDEX_FIELD_NUMBER: _ClassVar[int]
    RESOLVABLE_FIELD_NUMBER: _ClassVar[int]
    reasons: _containers.RepeatedScalarFieldContainer[str]
    subjects: _containers.RepeatedScalarFieldContainer[str]
    nodes: str
    reason_index: bytes
    resolvable: _containers.RepeatedScalarFieldContainer[bool]
    def __init__(self, reasons: _Optional[_Iterable[str]] = ..., subjects: _Optional[_Iterable[str]] = ..., nodes: _Optional[str] = ..., reason_index: _Optional[bytes] = ..., resolvable: _Optional[_Iterable[bool]] = ...) -> None: ...

class AllowedNodes(_message.Message):
    __slots__ = ("nodes", "rejected", "reason", "subject", "resolvable")
    NODES_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    RESOLVABLE_FIELD_NUMBER: _ClassVar[int]
    nodes: str
    rejected: NodeReasons
    reason: str
    subject: str
    resolvable: bool
    def __init__(self, nodes: _Optional[str] = ..., rejected: _Optional[_Union[NodeReasons, _Mapping]] = ..., reason: _Optional[str] = ..., subject: _Optional[str] = ..., resolvable: _Optional[bool] = ...) -> None: ...
