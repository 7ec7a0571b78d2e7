from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Profile(_message.Message):
    __slots__ = ("namespace", "labels", "priority_class", "annotations")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class AnnotationsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_CLASS_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    labels: _containers.ScalarMap[str, str]
    priority_class: str
    annotations: _containers.ScalarMap[str, str]
    def __init__(self, namespace: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., priority_class: _Optional[str] = ..., annotations: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Requirement(_message.Message):
    __slots__ = ("driver", "backend", "volume", "read_only")
    DRIVER_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    VOLUME_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    driver: str
    backend: str
    volume: str
    read_only: bool
    def __init__(self, driver: _Optional[str] = ..., backend: _Optional[str] = ..., volume: _Optional[str] = ..., read_only: _Optional[bool] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("instance", "version", "selectors", "policy", "backend_attributes")
    class BackendAttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SELECTORS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    BACKEND_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    instance: str
    version: str
    selectors: _containers.RepeatedCompositeFieldContainer[PodSelector]
    policy: str
    backend_attributes: _containers.ScalarMap[str, str]
    def __init__(self, instance: _Optional[str] = ..., version: _Optional[str] = ..., selectors: _Optional[_Iterable[_Union[PodSelector, _Mapping]]] = ..., policy: _Optional[str] = ..., backend_attributes: _Optional[_Mapping[str, str]] = ...) -> None: ...

class PodSelector(_message.Message):
    __slots__ = ("labels", "annotations", "namespaces", "priority_classes")
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    NAMESPACES_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_CLASSES_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.RepeatedCompositeFieldContainer[SelectorTerm]
    annotations: _containers.RepeatedCompositeFieldContainer[SelectorTerm]
    namespaces: _containers.RepeatedScalarFieldContainer[str]
    priority_classes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, labels: _Optional[_Iterable[_Union[SelectorTerm, _Mapping]]] = ..., annotations: _Optional[_Iterable[_Union[SelectorTerm, _Mapping]]] = ..., namespaces: _Optional[_Iterable[str]] = ..., priority_classes: _Optional[_Iterable[str]] = ...) -> None: ...

class SelectorTerm(_message.Message):
    __slots__ = ("key", "operator", "values")
    KEY_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    key: str
    operator: str
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, key: _Optional[str] = ..., operator: _Optional[str] = ..., values: _Optional[_Iterable[str]] = ...) -> None: ...

class Unchanged(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
