"""Maintenance: keeps the exchanges of this instance alive, and ends those that other instances left behind.

`wiring.open_sessions` owns the task of its loops. They give up exchanges that another instance took over, store
partial texts, end exchanges that run nowhere or have waited too long, let go of users whose data are being deleted,
and compare clocks. Each continues however often the store fails.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping
from contextlib import suppress

from agentic_backend.errors import StoreUnavailable
from agentic_backend.exchange.instance import Instance
from agentic_backend.exchange.write.boundary_events import show_deletion
from agentic_backend.kpi import Kpi
from agentic_backend.loop.event_loop import is_cancelled
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.relay.relay import Relay
from agentic_backend.sessions.reading.exchange_views import ExchangeViews
from agentic_backend.sessions.upkeep.instance_liveness import InstanceLiveness
from agentic_backend.sessions.upkeep.partial_texts import PartialTexts
from agentic_backend.sessions.upkeep.recovery import Recovery
from agentic_backend.sessions.waiting.waiting_exchanges import WaitingExchanges
from agentic_backend.stores.base import Store
from agentic_backend.stores.records import ExchangeRecord
from agentic_backend.telemetry.causes import because_of

log = logging.getLogger(__name__)

# A crash loses the text since the last write of partials: this interval plus the time of two writes. It may not lose
# more than a second, so each write may take 0.3 s.
_PARTIALS_EVERY_S = 0.4
_LOOK_EVERY_S = 1.0
# Logs of waiting exchanges are refreshed less often: nothing is urgent while a person decides.
_LOOKS_PER_LOOK_AT_WAITING = 15
_LOOK_AT_DELETIONS_EVERY_S = 5.0
_COUNT_WAITING_EVERY_S = 5.0
COMPARE_CLOCKS_EVERY_S = 10.0
# A skew does no harm to exchanges, but it confuses readers of the log, affects tokens, and hints at a broken machine.
_TOLERATED_SKEW_S = 5.0


class Maintenance:
    def __init__(
        self,
        instance: Instance,
        store: Store,
        relay: Relay,
        *,
        recovery: Recovery,
        waiting: WaitingExchanges,
        views: ExchangeViews,
        kpi: Kpi,
        look_at_deletions: Callable[[], Awaitable[None]],
    ) -> None:
        self._instance = instance
        self._store = store
        self._relay = relay
        self._recovery = recovery
        self._waiting = waiting
        self._views = views
        self._kpi = kpi
        self._look_at_deletions = look_at_deletions
        self._look_every_s = min(_LOOK_EVERY_S, instance.lease_s / 3)
        self._liveness = InstanceLiveness(instance.lease_s, 2 * self._look_every_s, asyncio.get_running_loop().time)
        self._living: set[str] = set()
        """The other instances that were not dead at the last look."""
        self._looks = 0
        self._is_skewed = False
        self._partial_texts = PartialTexts(instance.id, store, relay)

    async def aclose(self) -> None:
        """Look at the unfinished texts once more, when all exchanges have ended. If the store is away, it is left."""
        with suppress(StoreUnavailable):
            await self._partial_texts.keep()

    async def run(self) -> None:
        """Run the loops until cancelled."""
        async with asyncio.TaskGroup() as loops:
            loops.create_task(_forever("give up what is lost", self._instance.lease_s / 3, self._give_up_lost))
            loops.create_task(_forever("keep partial texts", _PARTIALS_EVERY_S, self._partial_texts.keep))
            loops.create_task(_forever("end what is left", self._look_every_s, self._end_left))
            loops.create_task(_forever("look after exchanges", self._look_every_s, self._look_after))
            loops.create_task(_forever("forget users", _LOOK_AT_DELETIONS_EVERY_S, self._look_at_deletions))
            loops.create_task(_forever("count what waits", _COUNT_WAITING_EVERY_S, self._count_waiting))
            loops.create_task(_forever("compare clocks", COMPARE_CLOCKS_EVERY_S, self._compare_clocks))

    async def recover_all(self) -> None:
        """End every exchange that the store says is running, and whose owner has no beat, as all instances have that
        may use it. Raises StoreUnavailable.
        """
        recovered = True
        while recovered:
            left = await self._store.running_exchanges()
            # After the exchanges: the owner of each of these has written its first beat by then.
            beats = await self._store.beats()
            # An exchange that was resumed by the recovery runs here already.
            running = [one for one in left if one.owner not in beats and self._relay.is_left(one.id)]
            recovered = any([await self._look_after_one(record, self._recovery.recover) for record in running])

    def _held(self) -> list[str]:
        """The ids of the exchanges that run here, or have ended here and are not stored yet."""
        ids = [log.exchange_id for log in self._relay.running_logs if log.session_id is not None]
        return [exchange_id for exchange_id in ids if self._relay.holds(exchange_id)]

    async def _give_up_lost(self) -> None:
        """Interrupt exchanges that other instances took over, because they considered this instance dead.

        This instance was suspended or cut off. The store refuses its writes, but the tools would keep running.
        """
        held = self._held()
        if not held:
            return
        lost = set(held) - await self._store.running_among(self._instance.id, held)
        for exchange_id in lost:
            record, exchange = await self._store.get_exchange(exchange_id), self._relay.running(exchange_id)
            if exchange is not None and not self._is_own(record):
                log.warning("exchange lost to another instance", extra={"exchange_id": exchange_id})
                exchange.interrupt()

    def _is_own(self, record: ExchangeRecord | None) -> bool:
        """Whether the exchange is not lost. If it waits, this instance may have just stored the pause."""
        if record is None:
            return False
        return record.status is ExchangeStatus.AWAITING_HUMAN or record.owner == self._instance.id

    async def _end_left(self) -> None:
        """End the exchanges of dead instances, and exchanges of this instance that it does not run.

        The store may have begun one for this instance and its answer got lost, so that it never started to run.
        """
        # Before the beats: the owner of each of these has written its first beat by then.
        running = await self._store.running_exchanges(not_of=self._living, not_among=self._held())
        beats = await self._store.beats()
        others = {instance_id: beat for instance_id, beat in beats.items() if instance_id != self._instance.id}
        signs: dict[str, Hashable] = dict(others)
        for record in running:
            # An instance of an earlier version has no counter; it extends the deadlines of its exchanges instead.
            signs.setdefault(_key(record, others), record.deadline)
        self._liveness.look(signs)
        left = [record for record in running if self._liveness.is_dead(_key(record, others))]
        for record in left:
            # It may have started here since the query.
            if self._relay.is_left(record.id):
                await self._look_after_one(record, self._recovery.recover)
        await self._forget_dead(others, {record.owner for record in running})

    async def _forget_dead(self, beats: Mapping[str, int], owners: Collection[str | None]) -> None:
        dead = {instance_id for instance_id in beats if self._liveness.is_dead(instance_id)}
        # An instance that lived at the last look was excluded from the query, so it may still own exchanges.
        for instance_id in dead - self._living - set(owners):
            await self._store.forget_instance(instance_id, beats[instance_id])
        self._living = set(beats) - dead

    async def _look_after(self) -> None:
        for record in await self._store.expired_exchanges(self._store.now()):
            await self._look_after_one(record, self._waiting.expire)
        self._looks += 1
        for followed in self._relay.foreign_logs:
            followed.give_up_unreached()
            if not followed.is_waiting or self._looks % _LOOKS_PER_LOOK_AT_WAITING == 0:
                is_stored = await self._views.refresh(followed)
                if not is_stored and followed.final is None:
                    show_deletion(followed)

    async def _look_after_one(self, record: ExchangeRecord, end: Callable[[ExchangeRecord], Awaitable[object]]) -> bool:
        """Whether `end` has ended it. Whatever that fails with, the others are looked after all the same."""
        try:
            return bool(await end(record))
        except Exception as error:
            told = because_of(error, exchange_id=record.id, session_id=record.session_id)
            log.warning("overdue exchange not ended", **told)
            return False

    async def _count_waiting(self) -> None:
        waiting = await self._store.waiting_exchanges()
        age_s = 0.0 if waiting.since is None else (self._store.now() - waiting.since).total_seconds()
        self._kpi.exchanges.waiting(waiting.count, max(0.0, age_s))

    async def _compare_clocks(self) -> None:
        ahead_s = await self._store.compare_clocks()
        if ahead_s is None:
            return
        self._kpi.dependencies.clock_skew(ahead_s)
        was_skewed, self._is_skewed = self._is_skewed, abs(ahead_s) > _TOLERATED_SKEW_S
        if self._is_skewed and not was_skewed:
            log.warning("clock skew", extra={"ahead_s": round(ahead_s, 3)})
        elif was_skewed and not self._is_skewed:
            log.info("clock skew ended", extra={"ahead_s": round(ahead_s, 3)})


def _key(record: ExchangeRecord, beats: Collection[str]) -> str:
    """The key by which the exchange's liveness is seen: its owner or, if that has no beat, its own id."""
    return record.owner if record.owner is not None and record.owner in beats else record.id


async def _forever(purpose: str, every_s: float, work: Callable[[], Awaitable[None]]) -> None:
    """Start `work` every `every_s` seconds; if it takes longer, after a short pause."""
    is_failing, clock, took_s = False, asyncio.get_running_loop().time, 0.0
    while not is_cancelled():
        await asyncio.sleep(max(every_s - took_s, every_s / 10))
        began = clock()
        try:
            await work()
        except Exception as error:
            # If the loop ended, nothing would maintain this instance's exchanges or recover those of others.
            if not is_failing:
                log.warning("maintenance fails", **because_of(error, purpose=purpose))
            is_failing = True
        else:
            if is_failing:
                log.info("maintenance works again", extra={"purpose": purpose})
            is_failing = False
        took_s = clock() - began
