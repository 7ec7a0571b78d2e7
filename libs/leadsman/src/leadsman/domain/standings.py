"""States in force turned round: per (driver, backend) the nodes in each state, and per bad volume the nodes with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from leadsman.domain.health import HOLDING, NOT_OBSERVED, Health, treatment
from leadsman.domain.report import StorageKey, VolumeKey
from leadsman.domain.states import State
from leadsman.domain.storage_policy import StoragePolicy, Treatment


@dataclass(slots=True)
class _Storage:
    by_state: dict[State, dict[str, Health]] = field(default_factory=dict)
    changed: int = 0


@dataclass(slots=True)
class _Volume:
    nodes: dict[str, Health] = field(default_factory=dict)
    changed: int = 0


class Standings:
    """Changed node by node; `changes` grows with every change, so that its value stands for one content.

    `recovered` and `recovered_volumes` collect what fewer nodes reject than before.
    """

    def __init__(self, policy: StoragePolicy, first_change: int) -> None:
        self.changes = first_change
        self.recovered: set[StorageKey] = set()
        self.recovered_volumes: set[VolumeKey] = set()
        self._policy = policy
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
        self.changes += 1
        storage.changed = self.changes
        if not storage.by_state:
            del self._storages[key]
            self._removed = self.changes
        if self._rejects(key, old) and not self._rejects(key, new):
            self.recovered.add(key)

    def move_volume(self, node: str, key: VolumeKey, new: Health | None) -> None:
        """`node` now refuses pods that need volume `key` for `new`, or None: no longer."""
        volume = self._volumes.get(key)
        if volume is None:
            volume = self._volumes[key] = _Volume()
        self.changes += 1
        volume.changed = self.changes
        if new is not None:
            volume.nodes[node] = new
            return
        del volume.nodes[node]
        if not volume.nodes:
            del self._volumes[key]
        self.recovered_volumes.add(key)

    def drop_all(self) -> None:
        """Nothing counts any more, so whatever rejected has recovered."""
        self.changes += 1
        self.recovered |= {key for key, one in self._storages.items() if not HOLDING.isdisjoint(one.by_state)}
        self.recovered_volumes |= self._volumes.keys()

    def take_recovered(self) -> set[str]:
        """The names of what `recovered` and `recovered_volumes` hold, which are empty afterwards."""
        names = {str(key) for key in self.recovered} | {str(key) for key in self.recovered_volumes}
        self.recovered.clear()
        self.recovered_volumes.clear()
        return names

    def _rejects(self, key: StorageKey, one: Health | None) -> bool:
        return treatment(one or NOT_OBSERVED, self._policy.of(key.driver)) is Treatment.REJECT
