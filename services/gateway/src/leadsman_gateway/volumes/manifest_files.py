"""Manifest files: YAML (or JSON) documents turned into records, and errors that name the file and the object."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import yaml

from leadsman.domain.errors import LeadsmanError
from leadsman_gateway.volumes.objects import RESOURCES
from leadsman_gateway.volumes.records import KIND_OF, Key, Kind, Record

SUFFIXES = frozenset({".yaml", ".yml", ".json"})
Found = dict[tuple[Kind, Key], Record]


class ManifestError(LeadsmanError):
    """A manifest file that cannot be used."""


def read_manifests(path: Path) -> Found:
    """The claims, volumes, classes and drivers in one file; objects of other kinds are left out.

    Raises:
        ManifestError: the file cannot be read, is not YAML, or holds an object that is not what its kind says.
    """
    found: Found = {}
    for document in _documents(path):
        for item in _flattened(document, path.name):
            record = _record(item, path.name)
            if record is None:
                continue
            kind = KIND_OF[type(record)]
            if (kind, record.key) in found:
                raise ManifestError(f"{path.name}: {kind} {_label(record.key)} is there twice; remove one")
            found[kind, record.key] = record
    return found


def _documents(path: Path) -> list[Any]:
    try:
        # The loader with libyaml is ten times faster; both build plain data only.
        loader = cast("type[yaml.SafeLoader]", getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        return list(yaml.load_all(path.read_text(encoding="utf-8"), Loader=loader))
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(f"{path.name}: cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise ManifestError(f"{path.name}: not YAML: {' '.join(str(error).split())}") from error


def _flattened(document: object, file: str) -> Iterator[dict[str, Any]]:
    """The objects of a document: itself, or the items of a List of any kind."""
    if document is None:
        return
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise ManifestError(f"{file}: a document is not a Kubernetes object: it has no kind")
    if document["kind"].endswith("List"):
        item_kind, items = document["kind"].removesuffix("List"), document.get("items") or []
        if not isinstance(items, list):
            raise ManifestError(f"{file}: {document['kind']}: items is not a list")
        for item in items:
            # Items of a typed list carry no kind of their own.
            named = {"kind": item_kind, **item} if isinstance(item, dict) and item_kind else item
            yield from _flattened(named, file)
    else:
        yield document


def _record(item: dict[str, Any], file: str) -> Record | None:
    resource = RESOURCES.get(item["kind"])
    if resource is None:
        return None
    metadata = item.get("metadata")
    name = metadata.get("name", "(no name)") if isinstance(metadata, dict) else "(no name)"
    try:
        return msgspec.convert(item, resource.model, strict=True).record()
    except msgspec.ValidationError as error:
        raise ManifestError(f"{file}: {resource.kind} {name}: {error}") from error


def _label(key: Key) -> str:
    return f"{key[0]}/{key[1]}" if key[0] else key[1]
