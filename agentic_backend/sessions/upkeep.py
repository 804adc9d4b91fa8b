"""Upkeep: keeps what this instance runs, and ends what others left behind.

Three loops, owned by the composition root: leases are renewed, the text that is being written is kept, and exchanges
whose time is over are looked after. Each goes on however often the store fails.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from agentic_backend.cancellation import is_cancelled
from agentic_backend.errors import AgenticError
from agentic_backend.protocol.messages import ExchangeStatus, utc_now
from agentic_backend.sessions.exchange_views import ExchangeViews
from agentic_backend.sessions.instance import Instance
from agentic_backend.sessions.recovery import Recovery
from agentic_backend.sessions.relay import Relay
from agentic_backend.sessions.waiting_exchanges import WaitingExchanges
from agentic_backend.stores.base import Store
from agentic_backend.stores.records import ExchangeRecord

log = logging.getLogger(__name__)

# What dies loses the text since it was kept last: of so long, and of what the store took to keep it and keeps anew.
# Not more than a second may be lost, so the store has 0.3 s each time.
_PARTIALS_EVERY_S = 0.4
# Each text is as young as it can be when its write begins, and the others' writes come in between.
_PARTIALS_AT_ONCE = 50
_LOOK_EVERY_S = 1.0
# Nothing is late that waits for a person.
_LOOKS_PER_LOOK_AT_WAITING = 15
_LEASES_LONGEST = timedelta(days=1)


class Upkeep:
    def __init__(
        self,
        instance: Instance,
        store: Store,
        relay: Relay,
        *,
        recovery: Recovery,
        waiting: WaitingExchanges,
        views: ExchangeViews,
    ) -> None:
        self._instance = instance
        self._store = store
        self._relay = relay
        self._recovery = recovery
        self._waiting = waiting
        self._views = views
        self._clock = asyncio.get_running_loop().time
        self._renewed_at = self._clock()
        self._looks = 0
        self._kept: dict[str, int] = {}
        """Of each running exchange: the seq up to which its text was kept."""

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as loops:
            loops.create_task(_forever("renew leases", self._instance.lease_s / 3, self._renew_leases))
            loops.create_task(_forever("keep partial texts", _PARTIALS_EVERY_S, self._keep_partials))
            look_every_s = min(_LOOK_EVERY_S, self._instance.lease_s / 3)
            loops.create_task(_forever("look after exchanges", look_every_s, self._look_after))

    async def recover_all(self) -> None:
        """End everything that runs in the store: no other instance can be on it. Raises StoreUnavailable."""
        recovered = True
        while recovered:
            left = await self._store.overdue_exchanges(utc_now() + _LEASES_LONGEST)
            # What goes on by itself runs here already.
            running = [one for one in left if one.status is ExchangeStatus.RUNNING and not self._relay.holds(one.id)]
            recovered = any([await self._recovery.recover(record) for record in running])

    async def _renew_leases(self) -> None:
        running = [log.exchange_id for log in self._relay.running_logs if log.session_id is not None]
        if self._clock() - self._renewed_at > self._instance.lease_s:
            await self._give_up_lost(running)
        if running:
            await self._store.renew_leases(self._instance.lease(), running)
        self._renewed_at = self._clock()

    async def _give_up_lost(self, running: Sequence[str]) -> None:
        """This process was stopped, or cut off, for so long that others may have taken over what it runs.

        The store takes nothing from it any more, but its tools would go on.
        """
        for exchange_id in running:
            record, exchange = await self._store.get_exchange(exchange_id), self._relay.running(exchange_id)
            if exchange is not None and (record is None or record.owner != self._instance.id):
                exchange.interrupt()

    async def _keep_partials(self) -> None:
        logs = [log for log in self._relay.running_logs if log.session_id is not None]
        self._kept = {log.exchange_id: self._kept.get(log.exchange_id, 0) for log in logs}
        changed = [log for log in logs if self._kept[log.exchange_id] != log.last_seq]
        for start in range(0, len(changed), _PARTIALS_AT_ONCE):
            some = changed[start : start + _PARTIALS_AT_ONCE]
            kept = {log.exchange_id: log.last_seq for log in some}
            await self._store.keep_partials(self._instance.id, {log.exchange_id: log.partial for log in some})
            self._kept |= kept

    async def _look_after(self) -> None:
        for record in await self._store.overdue_exchanges(utc_now()):
            await self._look_after_overdue(record)
        self._looks += 1
        for followed in self._relay.foreign_logs:
            followed.give_up_unreached()
            if not followed.is_waiting or self._looks % _LOOKS_PER_LOOK_AT_WAITING == 0:
                await self._views.refresh(followed)

    async def _look_after_overdue(self, record: ExchangeRecord) -> None:
        if self._relay.holds(record.id):
            # The store was away, and our own lease is late.
            return
        try:
            if record.status is ExchangeStatus.AWAITING_HUMAN:
                await self._waiting.expire(record)
            else:
                await self._recovery.recover(record)
        except AgenticError as error:
            names = {"exchange_id": record.id, "session_id": record.session_id, "code": error.code}
            log.warning("an overdue exchange could not be looked after", extra=names)


async def _forever(purpose: str, every_s: float, work: Callable[[], Awaitable[None]]) -> None:
    """Do `work` every so often, from one beginning to the next; where it takes longer, with a short pause between."""
    is_failing, clock, took_s = False, asyncio.get_running_loop().time, 0.0
    while not is_cancelled():
        await asyncio.sleep(max(every_s - took_s, every_s / 10))
        began = clock()
        try:
            await work()
        except Exception as error:
            # A loop that ended would let every exchange of this instance be taken for dead.
            if not is_failing:
                code = error.code if isinstance(error, AgenticError) else None
                log.warning("upkeep fails", exc_info=None if code else error, extra={"purpose": purpose, "code": code})
            is_failing = True
        else:
            if is_failing:
                log.info("upkeep works again", extra={"purpose": purpose})
            is_failing = False
        took_s = clock() - began
