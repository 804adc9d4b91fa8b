"""Upgrading: brings the database's schema up to date while servers use it.

`wiring.open_sessions` owns its task. Of several instances on one store, one at a time works: the one that has claimed
the chore. The claim expires with an instance that dies, and another one goes on where it was. Between two steps it
rests for as long as the last one took, so that people's writes have their share.
"""

import asyncio
import logging

from agentic_backend.errors import AgenticError
from agentic_backend.exchange.instance import Instance
from agentic_backend.kpi import Kpi
from agentic_backend.loop.event_loop import is_cancelled, running
from agentic_backend.stores.base import Store
from agentic_backend.stores.schema import Upgraded
from agentic_backend.telemetry.causes import because_of

log = logging.getLogger(__name__)

CLAIM_S = 60.0
_CHORE = "schema"
_LEAST_REST_S, _LONGEST_REST_S, _RETRY_S = 0.05, 5.0, 10.0
_TELL_EVERY_S = 30.0


class Upgrading:
    def __init__(self, instance: Instance, store: Store, kpi: Kpi, *, claim_s: float = CLAIM_S) -> None:
        self._instance = instance
        self._store = store
        self._kpi = kpi
        self._claim_s = claim_s
        self._is_failing = False
        self._changed = 0
        """The rows that this instance has changed."""
        self._told: tuple[str, float] | None = None
        """What the log said last: the name of the work, and when."""

    async def run(self) -> None:
        """Work until nothing is left, on any instance."""
        while not is_cancelled():
            try:
                left = await self._store.upgrades_left()
                self._kpi.dependencies.upgrades_left(left)
                if left == 0:
                    break
                rest_s = await self._turn()
            except Exception as error:
                # If the loop ended, the database would never be upgraded, and nobody would know why.
                self._tell_failure(error)
                self._is_failing, rest_s = True, _RETRY_S
            await asyncio.sleep(rest_s)
        if self._changed or self._told:
            log.info("database upgraded", extra={"changed": self._changed})

    async def _turn(self) -> float:
        """Take one step if no other instance works; return how long to rest, in seconds."""
        if not await self._claim():
            return self._claim_s / 2
        began = asyncio.get_running_loop().time()
        # A step that is an index may take long.
        async with running(self._keep_claim()):
            done = await self._store.upgrade()
        self._is_failing = False
        self._tell(done)
        took_s = asyncio.get_running_loop().time() - began
        return min(max(took_s, _LEAST_REST_S), _LONGEST_REST_S)

    async def _claim(self) -> bool:
        return await self._store.claim_chore(_CHORE, self._instance.id, self._claim_s)

    async def _keep_claim(self) -> None:
        while True:
            await asyncio.sleep(self._claim_s / 3)
            try:
                await self._claim()
            except AgenticError:
                # Two instances on the same step do no harm.
                continue

    def _tell_failure(self, error: Exception) -> None:
        """Tell it once, until a step succeeds."""
        if not self._is_failing:
            log.warning("database upgrade fails", **because_of(error))

    def _tell(self, done: Upgraded) -> None:
        if done.name is None:
            return
        self._changed += done.changed
        self._kpi.dependencies.upgrades_left(done.left)
        now = asyncio.get_running_loop().time()
        if self._told is None or self._told[0] != done.name or now - self._told[1] >= _TELL_EVERY_S:
            self._told = done.name, now
            fields = {"migration": done.name, "changed": self._changed, "left": done.left}
            log.info("database being upgraded", extra=fields)
