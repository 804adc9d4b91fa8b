"""Housekeeping: does the chores of the whole installation, such as completing sessions that nobody uses any more.

`wiring.open_sessions` owns its task. Of several instances on one store, one at a time does a chore: the one that has
claimed it. The claim expires with an instance that dies, and the next one goes on. A chore works in small batches, each
of which is complete in itself, so nothing is lost or done twice after a crash.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

from agentic_backend.errors import SessionNotFound
from agentic_backend.exchange.instance import Instance
from agentic_backend.kpi import Kpi
from agentic_backend.loop.event_loop import is_cancelled
from agentic_backend.protocol.messages import SessionState
from agentic_backend.sessions.session_ends import EndReason, SessionEnds
from agentic_backend.stores.base import Store
from agentic_backend.telemetry.causes import because_of

log = logging.getLogger(__name__)

EVERY_S = 60.0
# A batch is short, so that the claim outlives it, and the store serves others in between.
_BATCH, _BETWEEN_BATCHES_S, _BATCH_TIMEOUT_S = 50, 0.2, 60.0
# No chore keeps the others from their turn.
_BATCHES_IN_A_ROW = 20


@dataclass(frozen=True, slots=True)
class Chore:
    name: str
    """A bounded value: it is a label of the metrics."""
    work: Callable[[int], Awaitable[int]]
    """Does at most that many things; returns how many it has done. There are more to do if these are as many."""
    can_be_done: Callable[[], bool] = lambda: True
    """Whether this instance can do it now; else it claims nothing, and leaves it to another one."""


class Housekeeping:
    def __init__(
        self, instance: Instance, store: Store, kpi: Kpi, *chores: Chore, every_s: float = EVERY_S, batch: int = _BATCH
    ) -> None:
        self._instance = instance
        self._store = store
        self._kpi = kpi
        self.chores = chores
        self._every_s = every_s
        """How long it rests between two rounds, in seconds."""
        self._batch = batch

    async def run(self) -> None:
        """Do the chores until cancelled."""
        while not is_cancelled():
            await asyncio.sleep(self._every_s)
            for chore in self.chores:
                if chore.can_be_done():
                    await self.do(chore)

    async def do(self, chore: Chore) -> None:
        """Do what there is to do of a chore, for a few batches at most, if no other instance has claimed it."""
        for _ in range(_BATCHES_IN_A_ROW):
            try:
                if not await self._store.claim_chore(chore.name, self._instance.id, self._every_s + _BATCH_TIMEOUT_S):
                    return
                async with asyncio.timeout(_BATCH_TIMEOUT_S):
                    done = await chore.work(self._batch)
            except Exception as error:
                # If the loop ended, no chore would ever be done again.
                log.warning("chore failed", **because_of(error, chore=chore.name))
                self._kpi.sessions.chore(chore.name, "failed", 0)
                return
            self._kpi.sessions.chore(chore.name, "ok", done)
            if done:
                log.info("chore done", extra={"chore": chore.name, "count": done})
            if done < self._batch:
                return
            await asyncio.sleep(_BETWEEN_BATCHES_S)


def inactivity(store: Store, ends: SessionEnds, after_h: float) -> Chore:
    """Completes sessions that have had no message for `after_h` hours; those that wait for a person don't count."""

    async def work(limit: int) -> int:
        before = store.now() - timedelta(hours=after_h)
        idle = await store.idle_sessions(SessionState.ACTIVE, before, limit)
        for session in idle:
            try:
                await ends.end(session.id, EndReason.INACTIVE, None, idle_since=before)
            except SessionNotFound:
                # It was deleted meanwhile.
                continue
        return len(idle)

    return Chore("inactivity", work)
