"""The policy document as filter and scorer find it on disk: in a ConfigMap volume, or as a plain file."""

from __future__ import annotations

import hashlib
import itertools
from pathlib import Path
from typing import Any

import yaml

from leadsman_e2e.api import Object
from leadsman_e2e.rights import DEPLOY

_KEY = "policy.yaml"
_DATA = "..data"


def policy(*rules: Object, **parts: Any) -> str:
    """The text of a SchedulingPolicy with these rules; `parts` are its other keys, such as `mode`."""
    head = {"apiVersion": "leadsman.dev/v1alpha1", "kind": "SchedulingPolicy"}
    return yaml.safe_dump({**head, **parts, "rules": list(rules)}, sort_keys=False)


def example(name: str) -> str:
    """The text of `deploy/policies/<name>.yaml`, as shipped."""
    return (DEPLOY / "policies" / f"{name}.yaml").read_text(encoding="utf-8")


def fingerprint(text: str) -> str:
    """What the services call this version."""
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


class PolicyVolume:
    """A folder with the document in `path`."""

    def __init__(self, folder: Path, text: str) -> None:
        self.path = folder / _KEY
        self._folder = folder
        self._numbers = itertools.count()
        folder.mkdir()
        self.swap(text)

    def swap(self, text: str) -> None:
        """Bring a new version as the kubelet does: a new folder, to which one link is turned at once."""
        version = self._folder / f"..{next(self._numbers)}"
        version.mkdir()
        (version / _KEY).write_text(text, encoding="utf-8")
        self._link(self._folder / _DATA, version.name)
        if not self.path.is_symlink():
            self._link(self.path, f"{_DATA}/{_KEY}")

    def replace(self, text: str) -> None:
        """Bring a new version as an editor does: a new file takes the place of the old one."""
        new = self._folder / f"{_KEY}.new"
        new.write_text(text, encoding="utf-8")
        new.replace(self.path)

    def _link(self, path: Path, target: str) -> None:
        new = self._folder / "link.new"
        new.symlink_to(target)
        new.replace(path)
