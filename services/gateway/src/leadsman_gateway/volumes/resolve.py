"""Which storage a pod needs: its volumes turned into (driver, backend) requirements, from memory only.

The rules are those of kube-scheduler's VolumeBinding and NodeVolumeLimits plugins, with one difference: where they
reject, this never does. A volume that cannot be resolved is named, and policy decides.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter

from leadsman.domain.requirements import NEAR_REGION, NEAR_ZONE, NOWHERE, Near, Requirement
from leadsman.wire import pod as wire
from leadsman_gateway.volumes.catalogue import Catalogue
from leadsman_gateway.volumes.in_tree import NFS, PLUGIN_OF_FIELD, attributes_of, driver_of_plugin
from leadsman_gateway.volumes.naming import BackendNames
from leadsman_gateway.volumes.objects import BETA_CLASS
from leadsman_gateway.volumes.records import Claim, ObjectRef, StorageClass

# One call in C for all sources: kube-scheduler asks about every pod, and most volumes of most pods have none of them.
_SOURCE_FIELDS = ("persistent_volume_claim", "ephemeral", "csi", *PLUGIN_OF_FIELD)
_sources = attrgetter(*_SOURCE_FIELDS)
_ABSENT = (None,) * len(_SOURCE_FIELDS)
_IN_TREE_FIELDS = tuple((name, plugin) for name, plugin in PLUGIN_OF_FIELD.items() if plugin != NFS)


_MAX_LABEL = 63
_MAX_PLACES = 16
_MAX_TEXT = _MAX_PLACES * (_MAX_LABEL + 1)


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a pod needs, as far as memory tells.

    `requirements` are sorted and without repeats. `missing` are objects that the catalogue did not have: worth one
    `Catalogue.fetch` and a second try. `unresolved` are names of the pod's volumes behind which a driver may stand that
    could not be found; they are to be treated as unknown, never as healthy and never as a failure. `near` is where the
    pod's data is, all its volumes taken together, unless the pod's annotations say where.
    """

    requirements: tuple[Requirement, ...] = ()
    missing: tuple[ObjectRef, ...] = ()
    unresolved: tuple[str, ...] = ()
    near: Near = NOWHERE


def needs_storage(pod: wire.Pod) -> bool:
    """Whether any volume of the pod may be served by a driver; looks at the pod alone."""
    return any(_has_source(volume) for volume in pod.spec.volumes or ())


def annotated_near(pod: wire.Pod) -> Near | None:
    """Where the pod's data is by its annotations (several values with commas between); None if it has none of them."""
    annotations = pod.metadata.annotations
    if not annotations or (NEAR_ZONE not in annotations and NEAR_REGION not in annotations):
        return None
    return Near(_listed(annotations.get(NEAR_ZONE, "")), _listed(annotations.get(NEAR_REGION, "")))


def _listed(text: str) -> tuple[str, ...]:
    """The first few values in `text` that a label could have; what a pod writes there must not cost others anything."""
    values = (value.strip() for value in text[:_MAX_TEXT].split(","))
    return tuple(sorted({value for value in values if 0 < len(value) <= _MAX_LABEL})[:_MAX_PLACES])


class VolumeResolver:
    """Resolves pods against a catalogue. `backend_attributes` adds to, or overrides, `naming.DEFAULT_ATTRIBUTES`."""

    def __init__(self, catalogue: Catalogue, backend_attributes: Mapping[str, str]) -> None:
        self._catalogue = catalogue
        self._names = BackendNames(backend_attributes)

    def name_backends_by(self, backend_attributes: Mapping[str, str]) -> None:
        """Use other `backend_attributes` from now on."""
        self._names = BackendNames(backend_attributes)

    def resolve(self, pod: wire.Pod) -> Resolution:
        """The pod's needs by what is in memory now."""
        draft = _Draft(near=annotated_near(pod))
        for volume in pod.spec.volumes or ():
            if _has_source(volume):
                self._volume(pod, volume, draft)
        return draft.resolution()

    def _volume(self, pod: wire.Pod, volume: wire.Volume, draft: "_Draft") -> None:
        if volume.persistent_volume_claim is not None:
            source = volume.persistent_volume_claim
            use = _Use(volume.name, read_only=bool(source.read_only))
            self._named_claim(_namespace(pod), source.claim_name, use, draft)
        elif volume.ephemeral is not None:
            self._ephemeral(pod, volume, draft)
        elif volume.csi is not None:
            use = _Use(volume.name, read_only=bool(volume.csi.read_only))
            self._need(volume.csi.driver, volume.csi.volume_attributes or {}, use, draft)
        elif volume.nfs is not None:
            use = _Use(volume.name, read_only=bool(volume.nfs.read_only))
            self._need(NFS, {"server": volume.nfs.server}, use, draft)
        else:
            self._in_tree(volume, draft)

    def _in_tree(self, volume: wire.Volume, draft: "_Draft") -> None:
        for name, plugin in _IN_TREE_FIELDS:
            source: wire.InTree | None = getattr(volume, name)
            if source is not None:
                use = _Use(volume.name, read_only=source.get("readOnly") is True)
                self._need(driver_of_plugin(plugin), attributes_of(plugin, source), use, draft)

    def _named_claim(self, namespace: str, name: str, use: "_Use", draft: "_Draft") -> None:
        claim = self._catalogue.claim(namespace, name)
        if claim is None:
            draft.missing.add(ObjectRef("PersistentVolumeClaim", namespace, name))
            draft.unresolved.add(use.volume)
        else:
            self._claim(claim, use, draft)

    def _claim(self, claim: Claim, use: "_Use", draft: "_Draft") -> None:
        # A claim that names its volume is resolved by it even before binding is complete: no other can be bound.
        if claim.volume:
            self._bound(claim.volume, claim.storage_class, claim.provisioner, use, draft)
        else:
            self._class(claim.storage_class, claim.provisioner, use, draft)

    def _bound(self, name: str, class_name: str, provisioner: str, use: "_Use", draft: "_Draft") -> None:
        volume = self._catalogue.volume(name)
        if volume is None:
            draft.missing.add(ObjectRef("PersistentVolume", "", name))
            # What the volume controller wrote on the claim is certain; the class is only where it came from.
            storage_class = self._catalogue.storage_class(class_name)
            same = storage_class is not None and storage_class.driver == provisioner
            attributes = storage_class.parameters if storage_class is not None and same else {}
            self._need(provisioner, attributes, _Use(use.volume, use.read_only, name), draft)
        elif volume.driver is None:
            draft.unresolved.add(use.volume)
        elif volume.driver:
            needed = _Use(use.volume, read_only=use.read_only or volume.read_only, label=name)
            self._need(volume.driver, volume.attributes, needed, draft)
            draft.places.append(volume.near)

    def _class(self, name: str, provisioner: str, use: "_Use", draft: "_Draft") -> StorageClass | None:
        storage_class = self._catalogue.storage_class(name) if name else None
        if storage_class is None:
            if name:
                draft.missing.add(ObjectRef("StorageClass", "", name))
            self._need(provisioner, {}, use, draft)
        elif storage_class.driver:
            self._need(storage_class.driver, storage_class.parameters, use, draft)
            if storage_class.waits:
                draft.places.append(storage_class.near)
        return storage_class

    def _ephemeral(self, pod: wire.Pod, volume: wire.Volume, draft: "_Draft") -> None:
        namespace, name = _namespace(pod), f"{pod.metadata.name}-{volume.name}"
        claim = self._catalogue.claim(namespace, name)
        use = _Use(volume.name)
        if claim is not None and claim.owner_uid == pod.metadata.uid:
            self._claim(claim, use, draft)
            return
        resolved = self._template(volume, use, draft)
        # The template says the same as the claim until the claim is bound, which with a waiting class is after us. A
        # claim of another owner is an earlier pod's: ours is on its way.
        if claim is not None or resolved is None or not resolved.waits:
            draft.missing.add(ObjectRef("PersistentVolumeClaim", namespace, name))

    def _template(self, volume: wire.Volume, use: "_Use", draft: "_Draft") -> StorageClass | None:
        template = volume.ephemeral.volume_claim_template if volume.ephemeral else None
        spec = (template.spec if template else None) or wire.TemplateSpec()
        annotations = (template.metadata.annotations if template and template.metadata else None) or {}
        class_name = annotations.get(BETA_CLASS) or spec.storage_class_name or ""
        if spec.volume_name:
            self._bound(spec.volume_name, class_name, "", use, draft)
            return None
        return self._class(class_name, "", use, draft)

    def _need(self, driver: str, attributes: Mapping[str, str], use: "_Use", draft: "_Draft") -> None:
        if not driver:
            draft.unresolved.add(use.volume)
            return
        key = (driver, self._names.name(driver, attributes), use.label or use.volume)
        # One volume used twice is written to if either use writes.
        draft.needs[key] = draft.needs.get(key, True) and use.read_only


@dataclass(frozen=True, slots=True)
class _Use:
    """How a pod uses a volume: its name in the pod, the access, and the PV's name once known."""

    volume: str
    read_only: bool = False
    label: str = ""


@dataclass(slots=True)
class _Draft:
    """A resolution in the making. `near` is what the pod says; `places` is where its volumes are."""

    near: Near | None = None
    places: list[Near] = field(default_factory=list)
    needs: dict[tuple[str, str, str], bool] = field(default_factory=dict)
    missing: set[ObjectRef] = field(default_factory=set)
    unresolved: set[str] = field(default_factory=set)

    def resolution(self) -> Resolution:
        """The finished, sorted form."""
        needs = sorted(self.needs.items())
        return Resolution(
            requirements=tuple(Requirement(*key, read_only=read_only) for key, read_only in needs),
            missing=tuple(sorted(self.missing)),
            unresolved=tuple(sorted(self.unresolved)),
            near=self._together() if self.near is None else self.near,
        )

    def _together(self) -> Near:
        places = [place for place in self.places if place != NOWHERE]
        if len(places) < 2:
            return places[0] if places else NOWHERE
        zones, regions = zip(*places, strict=True)
        return Near(tuple(sorted(set().union(*zones))), tuple(sorted(set().union(*regions))))


def _namespace(pod: wire.Pod) -> str:
    return pod.metadata.namespace or "default"


def _has_source(volume: wire.Volume) -> bool:
    return bool(_sources(volume) != _ABSENT)
