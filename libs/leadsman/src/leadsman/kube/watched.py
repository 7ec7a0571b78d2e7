"""What a reflector watches, how, and where it keeps what it reads."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from leadsman.kube.api import Query

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

Key = tuple[str, str]
"""(namespace, name); the namespace of a cluster-wide object is empty."""


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """How lists and watches behave; times in seconds.

    `idle_s` exceeds three bookmarks (one a minute by kube-apiserver, which skips some: 2 minutes without any were
    measured on 1.36.2); a dead peer is noticed earlier, by TCP. `watch_s` is the least length asked of the server;
    up to twice that is used, so that replicas do not reconnect together. `relist_s` bounds any drift.
    """

    page_size: int = 500
    page_deadline_s: float = 30.0
    watch_s: float = 300.0
    idle_s: float = 190.0
    relist_s: float = 3600.0
    backoff_s: float = 0.5
    backoff_limit_s: float = 30.0


class Decoded(NamedTuple, Generic[T]):
    """One object as its watcher keeps it."""

    key: Key
    kept: T
    version: str
    """The object's resourceVersion."""


@dataclass(frozen=True, slots=True)
class Watched(Generic[T]):
    """What is watched: the collection at `path`, narrowed by `query`, as `kind` in metrics and messages.

    `decode` raises msgspec.DecodeError for an object that it cannot read. With `metadata_only` the API server leaves
    out spec and status.
    """

    kind: str
    path: str
    decode: Callable[[msgspec.Raw], Decoded[T]]
    query: Query = ()
    metadata_only: bool = False

    @property
    def plural(self) -> str:
        """The resource's name in its path."""
        return self.path.rpartition("/")[2]


class Sink(Protocol[T_contra]):
    """Where a reflector keeps what it reads; called synchronously, must not raise."""

    def replace(self, objects: Mapping[Key, T_contra], /) -> object:
        """`objects` are all that there is."""
        ...

    def put(self, key: Key, kept: T_contra, /) -> object:
        """`key` was added or changed."""
        ...

    def drop(self, key: Key, /) -> object:
        """`key` was deleted."""
        ...

    def __len__(self) -> int:
        """Number of objects kept."""
        ...
