"""The policy document: read, checked to the last key, and turned into the domain's `SchedulingPolicy`."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path as FilePath

from msgspec import UNSET, UnsetType

from leadsman.config.check import Checker
from leadsman.config.errors import DocumentError
from leadsman.config.load import parse_with_lines, read_text
from leadsman.config.policy_rules import build_rules, check_weight
from leadsman.config.policy_structs import DRIVER, BreakerEntry, DriverEntry, PolicyDocument, StorageEntry
from leadsman.config.policy_terms import Complain
from leadsman.config.tree import Path
from leadsman.domain.durations import parse_duration
from leadsman.domain.errors import ConfigError
from leadsman.domain.policy import DEFAULT_WEIGHTS, Component, SchedulingPolicy
from leadsman.domain.storage_policy import BreakerPolicy, DriverPolicy, StoragePolicy

MAX_DURATION_S = 365 * 24 * 3600.0
"""Of any time in the document; a longer one is a mistake."""


def load_policy(path: FilePath) -> tuple[SchedulingPolicy, str]:
    """The policy in the file `path`, and its text.

    Raises:
        DocumentError: the file cannot be read or used; the message lists every problem with file, line and key.
    """
    text = read_text(path)
    return parse_policy(text, str(path)), text


def parse_policy(text: str, source: str) -> SchedulingPolicy:
    """The policy in `text`; `source` stands for the file in errors.

    Raises:
        DocumentError: the document cannot be used.
    """
    document, tree = parse_with_lines(text, PolicyDocument, source)
    found = Checker(tree)
    storage = _Storage(found.add).policy(document.storage)
    rules = build_rules(document.rules, found.add)
    _check_weights(document.score.weights, found.add)
    if found.problems:
        raise DocumentError(source, found.problems)
    return SchedulingPolicy(
        mode=document.mode,
        storage=storage,
        backend_attributes=document.storage.backends,
        rules=rules,
        weights={**DEFAULT_WEIGHTS, **document.score.weights},
        fingerprint=fingerprint(text),
    )


def fingerprint(text: str) -> str:
    """Twelve hexadecimal digits that tell this document from every other, the same wherever it is read."""
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def _check_weights(weights: Mapping[Component, float], complain: Complain) -> None:
    for component, weight in weights.items():
        check_weight(weight, ("score", "weights", component.value), complain)


class _Storage:
    """Turns `storage` of the document into the domain's, and complains of what cannot work."""

    def __init__(self, complain: Complain) -> None:
        self._complain = complain

    def policy(self, entry: StorageEntry) -> StoragePolicy:
        """The treatment of every driver."""
        default = self._driver(entry.default, DriverPolicy(), ("storage", "default"))
        drivers = {
            name: self._driver(one, default, ("storage", "drivers", name)) for name, one in entry.drivers.items()
        }
        self._check_drivers(entry)
        return StoragePolicy(
            default,
            drivers,
            self._seconds(
                entry.bus_frozen.max_age, StoragePolicy().bus_frozen_max_age_s, ("storage", "busFrozen", "maxAge")
            ),
            self._breaker(entry.breaker, ("storage", "breaker")),
        )

    def _driver(self, entry: DriverEntry, base: DriverPolicy, path: Path) -> DriverPolicy:
        where = (*path, "staleAfter")
        stale_after_s = self._seconds(entry.stale_after, base.stale_after_s, where)
        hold_s = self._seconds(entry.hold_unhealthy, base.hold_unhealthy_s, (*path, "holdUnhealthy"))
        try:
            return DriverPolicy(entry.unknown or base.unknown, entry.stale or base.stale, stale_after_s, hold_s)
        except ConfigError as error:  # of staleAfter: no text is a negative duration
            self._complain(where, str(error))
            return base

    def _check_drivers(self, entry: StorageEntry) -> None:
        for key, names in (("drivers", entry.drivers), ("backends", entry.backends)):
            for name in names:
                if not re.fullmatch(DRIVER, name):
                    words = "is not the name of a CSI driver, such as nfs.csi.k8s.io"
                    self._complain(("storage", key, name), f"{name[:80]!r} {words}")
        for driver, attribute in entry.backends.items():
            if not attribute.strip():
                self._complain(("storage", "backends", driver), "names no volume attribute; write one, such as server")

    def _breaker(self, entry: BreakerEntry, path: Path) -> BreakerPolicy:
        share_fits, nodes_fit = 0 < entry.share <= 1, entry.min_nodes >= 1
        if not share_fits:
            words = "does not fit; write more than 0 and at most 1, which never opens the breaker"
            self._complain((*path, "share"), f"{entry.share} {words}")
        if not nodes_fit:
            self._complain((*path, "minNodes"), f"{entry.min_nodes} does not fit; write 1 or more")
        return BreakerPolicy(entry.share, entry.min_nodes) if share_fits and nodes_fit else BreakerPolicy()

    def _seconds(self, text: str | UnsetType, otherwise: float, path: Path) -> float:
        if text is UNSET:
            return otherwise
        try:
            seconds = parse_duration(text)
        except ConfigError as error:
            self._complain(path, str(error))
            return otherwise
        if seconds > MAX_DURATION_S:
            self._complain(path, f"{text[:80]!r} is longer than a year")
            return otherwise
        return seconds
