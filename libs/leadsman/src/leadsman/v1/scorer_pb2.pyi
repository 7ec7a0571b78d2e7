from leadsman.v1 import requirements_pb2 as _requirements_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ScoreRequest(_message.Message):
    __slots__ = ("id", "profile", "requirements", "known_generation", "traceparent", "policy", "near_zones", "near_regions")
    ID_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    REQUIREMENTS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_GENERATION_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    NEAR_ZONES_FIELD_NUMBER: _ClassVar[int]
    NEAR_REGIONS_FIELD_NUMBER: _ClassVar[int]
    id: int
    profile: _requirements_pb2.Profile
    requirements: _containers.RepeatedCompositeFieldContainer[_requirements_pb2.Requirement]
    known_generation: int
    traceparent: str
    policy: str
    near_zones: _containers.RepeatedScalarFieldContainer[str]
    near_regions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[int] = ..., profile: _Optional[_Union[_requirements_pb2.Profile, _Mapping]] = ..., requirements: _Optional[_Iterable[_Union[_requirements_pb2.Requirement, _Mapping]]] = ..., known_generation: _Optional[int] = ..., traceparent: _Optional[str] = ..., policy: _Optional[str] = ..., near_zones: _Optional[_Iterable[str]] = ..., near_regions: _Optional[_Iterable[str]] = ...) -> None: ...

class ScoreResponse(_message.Message):
    __slots__ = ("id", "generation", "hello", "unchanged", "scores", "frozen", "dry_run", "policy", "degraded")
    ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    FROZEN_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    DEGRADED_FIELD_NUMBER: _ClassVar[int]
    id: int
    generation: int
    hello: _requirements_pb2.Hello
    unchanged: _requirements_pb2.Unchanged
    scores: NodeScores
    frozen: bool
    dry_run: bool
    policy: str
    degraded: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[int] = ..., generation: _Optional[int] = ..., hello: _Optional[_Union[_requirements_pb2.Hello, _Mapping]] = ..., unchanged: _Optional[_Union[_requirements_pb2.Unchanged, _Mapping]] = ..., scores: _Optional[_Union[NodeScores, _Mapping]] = ..., frozen: _Optional[bool] = ..., dry_run: _Optional[bool] = ..., policy: _Optional[str] = ..., degraded: _Optional[_Iterable[str]] = ...) -> None: ...

class NodeScores(_message.Message):
    __slots__ = ("nodes", "scores", "default_score", "caps", "components")
    NODES_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_SCORE_FIELD_NUMBER: _ClassVar[int]
    CAPS_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    nodes: str
    scores: bytes
    default_score: int
    caps: bytes
    components: _containers.RepeatedCompositeFieldContainer[ScoreComponent]
    def __init__(self, nodes: _Optional[str] = ..., scores: _Optional[bytes] = ..., default_score: _Optional[int] = ..., caps: _Optional[bytes] = ..., components: _Optional[_Iterable[_Union[ScoreComponent, _Mapping]]] = ...) -> None: ...

class ScoreComponent(_message.Message):
    __slots__ = ("name", "weight", "values")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    name: str
    weight: float
    values: bytes
    def __init__(self, name: _Optional[str] = ..., weight: _Optional[float] = ..., values: _Optional[bytes] = ...) -> None: ...
