"""ExchangeViews: finds or rebuilds the log of any exchange: running here or elsewhere, waiting or ended."""

import contextlib

from agentic_backend.auth.user import User
from agentic_backend.errors import ExchangeNotFound, StoreUnavailable
from agentic_backend.exchange.end.resumable import is_resumable
from agentic_backend.exchange.instance import Instance
from agentic_backend.exchange.write.boundary_events import final_of, show_waiting
from agentic_backend.protocol.events import Final, HumanRequests, Place
from agentic_backend.protocol.messages import ChatMessage, ExchangeStatus
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.relay.relay import Relay
from agentic_backend.sessions.access import owned_exchange
from agentic_backend.sessions.waiting.approvals import remaining
from agentic_backend.stores.base import ExchangeEnd, Store
from agentic_backend.stores.records import ExchangeRecord, shown

_VIEW_BYTES = 1024 * 1024


def waiting_seq(record: ExchangeRecord, rest: HumanRequests) -> int:
    """The seq of the `awaiting_human` event with the `rest` of the requests of a waiting exchange."""
    asked = record.pending.requests if record.pending is not None else rest.requests
    return record.last_seq + len(asked) - len(rest.requests)


class ExchangeViews:
    def __init__(self, instance: Instance, store: Store, relay: Relay) -> None:
        self._instance = instance
        self._store = store
        self._relay = relay

    async def view(self, user: User, exchange_id: str) -> ExchangeLog:
        """The log of the user's exchange; if it has ended and its events are no longer kept, only its final.

        Raises ExchangeNotFound.
        """
        log = self._relay.find(exchange_id)
        if log is not None and log.user_id != user.id:
            raise ExchangeNotFound
        if log is not None and log.final is not None:
            await self._bring_up_to_date(log, log.final)
            return log
        if log is not None and self._relay.running(exchange_id) is not None:
            return log
        return await self.view_of(await owned_exchange(self._store, user.id, exchange_id))

    async def _bring_up_to_date(self, log: ExchangeLog, final: Final) -> None:
        """Tell the next reader of an ended exchange that it can't be resumed any more, if that is so by now.

        A store that is away can't tell: the log is shown as it is.
        """
        if final.resumable and log.session_id is not None:
            with contextlib.suppress(StoreUnavailable):
                session = await self._store.get_session(log.session_id)
                resumable = await is_resumable(self._store, log.exchange_id, final.status, session)
                if resumable is False:
                    log.replace_final(final.model_copy(update={"resumable": False}))

    async def view_of(self, record: ExchangeRecord) -> ExchangeLog:
        """The log of a stored exchange; if it has ended, it holds only the final."""
        match record.status:
            case ExchangeStatus.RUNNING:
                return await self._running_log(record)
            case ExchangeStatus.AWAITING_HUMAN:
                return await self.waiting_log(record)
            case _:
                return ExchangeLog.of_final(await self.final_of(record), record.user_id)

    async def _running_log(self, record: ExchangeRecord) -> ExchangeLog:
        """The log of an exchange that runs elsewhere, or is about to run here."""
        if record.owner == self._instance.id and not self._relay.holds(record.id):
            # It has begun in the store, and its log is about to be made.
            await self._relay.admitted()
        log = self._relay.mirror(record.session_id, record.id, record.user_id)
        if not log.is_mirrored and log.last_seq <= record.last_seq:
            # Without a broadcast, readers see only the stored state until it ends. Its seq is where the owner's epoch
            # begins, which is no seq of the owner's own log.
            # Messages first, then partial text: text that is stored as a message in between is not shown twice.
            messages = await self._messages(record)
            partial = await self._store.partial(record.id)
            if log.last_seq <= record.last_seq:
                log.start_anew(messages, partial, record.last_seq)
        return log

    async def waiting_log(self, record: ExchangeRecord) -> ExchangeLog:
        """The log of a waiting exchange, rebuilt from the store if it is not here; any instance may continue it.

        A rebuilt log has the same seqs on every instance, because the store has the whole exchange.
        """
        log = self._relay.mirror(record.session_id, record.id, record.user_id)
        rest = remaining(record, ())
        last_seq = waiting_seq(record, rest)
        if log.last_seq < last_seq:
            messages = await self._messages(record)
            if log.last_seq < last_seq:
                log.start_anew(messages, (), last_seq - 1)
                show_waiting(log, rest, last_seq)
        return log

    async def final_of(self, record: ExchangeRecord) -> Final:
        """The final of an ended exchange, rebuilt from the store. Raises ExchangeNotFound if it is being deleted."""
        messages = await self._messages(record)
        # After the messages: if the session still exists, none of them was missing.
        session = await self._store.get_session(record.session_id)
        if session is None:
            raise ExchangeNotFound
        place = Place(session_id=record.session_id, exchange_id=record.id, seq=record.last_seq)
        end = ExchangeEnd(record.status, record.usage, record.last_seq, record.error)
        resumable = await is_resumable(self._store, record.id, record.status, session)
        return final_of(place, end, messages, session, resumable)

    async def refresh(self, log: ExchangeLog) -> bool:
        """Show the stored end or pause of an exchange that does not run here, unless the log has it.

        False if the store has no such exchange.
        """
        record = await self._store.get_exchange(log.exchange_id)
        if record is None or record.status is ExchangeStatus.RUNNING:
            return record is not None
        if record.status is ExchangeStatus.AWAITING_HUMAN:
            await self.waiting_log(record)
        elif log.final is None:
            try:
                final = await self.final_of(record)
            except ExchangeNotFound:
                return False
            if log.final is None:
                log.end_with(final)
        return True

    async def _messages(self, record: ExchangeRecord) -> list[ChatMessage]:
        """The messages for a `final` or a `reset`: of a too large exchange only the first and the last ones."""
        return shown(await self._store.exchange_messages(record.id, _VIEW_BYTES))
