"""The policy document on disk: loaded at start, then looked at again and again, and taken when it is good.

A ConfigMap volume is swapped by a symbolic link, an editor replaces the file, `kubectl cp` writes in place: contents
are compared, so that none of these is missed and a touched file is no change. It costs one read a second of a file that
is smaller than 1 MiB, on a thread, because a volume may hang; only another text is parsed.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge

from leadsman.config.errors import DocumentError
from leadsman.config.load import read_text
from leadsman.config.policy_document import load_policy, parse_policy
from leadsman.domain.clock import Clock
from leadsman.domain.policy import SchedulingPolicy
from leadsman.runtime.admin import Check
from leadsman.telemetry.logs import get_logger

LOOK_EVERY_S = 1.0
"""How often the file is looked at."""

log = get_logger("policy")


class PolicyFile:
    """The policy in the file `path`; with None the built-in one, for ever.

    `policy` and `text` are what is in force, `refused` what is wrong with a newer version, empty if nothing is.

    Raises:
        DocumentError: the file cannot be used at all; there is no earlier version to go on with.
    """

    def __init__(self, path: Path | None, *, clock: Clock, registry: CollectorRegistry) -> None:
        self._path = path
        self._clock = clock
        self._measure(registry)
        self.policy, self.text = (SchedulingPolicy(), "") if path is None else load_policy(path)
        self.refused = ""
        self._seen: str | None = self.text
        self._in_force()

    async def run(self, take: Callable[[SchedulingPolicy], Awaitable[None]]) -> None:
        """Eternal: look for a new version, and have `take` bring a good one in force."""
        if self._path is None:
            await asyncio.Event().wait()
            return
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            await self._look(self._path, take)

    async def _look(self, path: Path, take: Callable[[SchedulingPolicy], Awaitable[None]]) -> None:
        try:
            text = await asyncio.to_thread(read_text, path)
        except DocumentError as error:
            self._seen = None
            self._refuse(str(error))
            return
        if text == self._seen:
            return
        self._seen = text
        try:
            policy = await asyncio.to_thread(parse_policy, text, str(path))
            await self._take(policy, text, take)
        except DocumentError as error:
            self._refuse(str(error))
        except Exception as error:  # whatever a document makes our own code do, the last good one stands
            log.exception("the new policy made us fail; please report this bug")
            self._refuse(f"{path}: cannot be used because of a bug in Leadsman: {error!r}")

    async def _take(
        self, policy: SchedulingPolicy, text: str, take: Callable[[SchedulingPolicy], Awaitable[None]]
    ) -> None:
        if self.refused:
            self.refused = ""
            log.info("the policy file is good again", policy=policy.fingerprint)
        if policy.fingerprint == self.policy.fingerprint:
            return
        await take(policy)
        before, self.policy, self.text = self.policy.fingerprint, policy, text
        self._reloads.labels("taken").inc()
        self._in_force()
        log.info("policy in force", policy=policy.fingerprint, before=before, mode=policy.mode.value)

    def _refuse(self, words: str) -> None:
        if words == self.refused:
            return
        self.refused = words
        self._reloads.labels("refused").inc()
        log.warning("new policy refused, the last good one stays", policy=self.policy.fingerprint, error=words)

    def check(self) -> Check:
        """For /readyz?verbose: which policy is in force, and whether a newer one is refused."""
        return Check("policy", self._describe, required=False)

    def _describe(self) -> tuple[bool, str]:
        policy = self.policy
        words = f"{policy.fingerprint}, mode {policy.mode.value}, {len(policy.rules)} rules"
        if self.refused:
            return False, f"{words}; a newer version is refused: {'; '.join(self.refused.splitlines())}"
        return True, words

    def _in_force(self) -> None:
        self._taken_at.set(self._clock.epoch())
        self._info.clear()
        self._info.labels(self.policy.fingerprint, self.policy.mode.value).set(1)

    def _measure(self, registry: CollectorRegistry) -> None:
        self._reloads = Counter(
            "leadsman_policy_reloads_total",
            "New versions of the policy file, by result: taken, or refused because of a mistake in it.",
            ["result"],
            registry=registry,
        )
        for result in ("taken", "refused"):
            self._reloads.labels(result)
        self._taken_at = Gauge(
            "leadsman_policy_last_reload_success_timestamp_seconds",
            "When the policy in force was taken, in seconds since 1970.",
            registry=registry,
        )
        self._info = Gauge("leadsman_policy_info", "1 for the policy in force.", ["policy", "mode"], registry=registry)
        Gauge(
            "leadsman_policy_refused", "1 while the policy file holds a version that is refused.", registry=registry
        ).set_function(lambda: float(bool(self.refused)))
