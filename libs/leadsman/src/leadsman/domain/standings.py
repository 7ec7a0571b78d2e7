"""States in force turned round: per (driver, backend) the nodes in each state, and per bad volume the nodes with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from leadsman.domain.breaker import Breakers
from leadsman.domain.changes import ChangeCounter
from leadsman.domain.health import Health
from leadsman.domain.report import StorageKey, VolumeKey
from leadsman.domain.states import State
from leadsman.domain.storage_policy import StoragePolicy


@dataclass(slots=True)
class _Storage:
    by_state: dict[State, dict[str, Health]] = field(default_factory=dict)
    changed: int = 0


@dataclass(slots=True)
class _Volume:
    nodes: dict[str, Health] = field(default_factory=dict)
    changed: int = 0


class Standings:
    """Changed node by node, in step with `breakers`; every change has a number of `changes`.

    `recovered` and `recovered_volumes` collect what fewer nodes reject than before.
    """

    def __init__(self, breakers: Breakers, changes: ChangeCounter) -> None:
        self.recovered: set[StorageKey] = set()
        self.recovered_volumes: set[VolumeKey] = set()
        self._breakers = breakers
        self._changes = changes
        self._storages: dict[StorageKey, _Storage] = {}
        self._volumes: dict[VolumeKey, _Volume] = {}
        self._removed = 0
        self.storages: Mapping[StorageKey, object] = self._storages
        self.volumes: Mapping[VolumeKey, object] = self._volumes

    def in_state(self, key: StorageKey, state: State) -> Mapping[str, Health] | None:
        """Nodes that are in `state` at `key`, None if there are none; do not keep it across changes."""
        storage = self._storages.get(key)
        return storage.by_state.get(state) if storage else None

    def refusing(self, key: VolumeKey) -> Mapping[str, Health] | None:
        """Nodes that turn away pods with volume `key`, None if there are none; do not keep it across changes."""
        volume = self._volumes.get(key)
        return volume.nodes if volume else None

    def volume_changed(self, key: VolumeKey) -> int:
        """The last change of volume `key`, 0 if no node refuses it."""
        volume = self._volumes.get(key)
        return volume.changed if volume else 0

    def changed(self, key: StorageKey) -> int:
        """The last change of `key`, or the last time that any key vanished if it is not listed now."""
        storage = self._storages.get(key)
        return self._removed if storage is None else storage.changed

    def move(self, node: str, key: StorageKey, old: Health | None, new: Health | None) -> None:
        """`node` was in `old` at `key` and is in `new`; None where it does not list the key."""
        storage = self._storages.get(key)
        if storage is None:
            storage = self._storages[key] = _Storage()
        if old is not None and (new is None or new.state is not old.state):
            del storage.by_state[old.state][node]
            if not storage.by_state[old.state]:
                del storage.by_state[old.state]
        if new is not None:
            storage.by_state.setdefault(new.state, {})[node] = new
        storage.changed = self._changes.next()
        if not storage.by_state:
            del self._storages[key]
            self._removed = storage.changed
        if self._breakers.move(key, old, new):
            self.recovered.add(key)

    def move_volume(self, node: str, key: VolumeKey, new: Health | None) -> None:
        """`node` now refuses pods that need volume `key` for `new`, or None: no longer."""
        volume = self._volumes.get(key)
        if volume is None:
            volume = self._volumes[key] = _Volume()
        volume.changed = self._changes.next()
        if new is not None:
            volume.nodes[node] = new
            return
        del volume.nodes[node]
        if not volume.nodes:
            del self._volumes[key]
        self.recovered_volumes.add(key)

    def adopt(self, policy: StoragePolicy) -> None:
        """Let the breakers count by another policy."""
        self._breakers.adopt(policy)
        for key, storage in self._storages.items():
            for nodes in storage.by_state.values():
                for health in nodes.values():
                    self._breakers.move(key, None, health)

    def rejected(self) -> dict[StorageKey, set[str]]:
        """By key, the nodes that list it and are rejected for it."""
        return {key: self._rejected_at(key, storage) for key, storage in self._storages.items()}

    def take_recovered(self) -> set[str]:
        """The names of what `recovered` and `recovered_volumes` hold, which are empty afterwards."""
        names = {str(key) for key in self.recovered} | {str(key) for key in self.recovered_volumes}
        self.recovered.clear()
        self.recovered_volumes.clear()
        return names

    def _rejected_at(self, key: StorageKey, storage: _Storage) -> set[str]:
        found: set[str] = set()
        for nodes in storage.by_state.values():
            rejected = {health for health in set(nodes.values()) if self._breakers.rejects(key, health)}
            if rejected:
                found |= {node for node, health in nodes.items() if health in rejected}
        return found
