"""ExchangeViews: what a client can follow of an exchange, wherever it runs, waits or has ended."""

from agentic_backend.auth.user import User
from agentic_backend.broadcast.exchange_log import ExchangeLog
from agentic_backend.errors import ExchangeNotFound, Interrupted
from agentic_backend.protocol.events import AwaitingHuman, ErrorInfo, ExchangeError, Final
from agentic_backend.protocol.messages import ExchangeStatus, TokenUsage
from agentic_backend.sessions.access import owned_exchange
from agentic_backend.sessions.approvals import remaining
from agentic_backend.sessions.instance import Instance
from agentic_backend.sessions.relay import Relay
from agentic_backend.stores.base import Store
from agentic_backend.stores.records import ExchangeRecord

# A log that is made anew for an exchange that waits leaves the seqs of its other logs behind; once it goes on, its seqs
# leave those behind that any of these logs may have given since.
SEQ_JUMP = 1_000


class ExchangeViews:
    def __init__(self, instance: Instance, store: Store, relay: Relay) -> None:
        self._instance = instance
        self._store = store
        self._relay = relay

    async def view(self, user: User, exchange_id: str) -> ExchangeLog | Final:
        """The log of the user's exchange or, where it has ended and its events are gone, its final.

        Raises ExchangeNotFound.
        """
        log = self._relay.find(exchange_id)
        if log is not None and log.user_id != user.id:
            raise ExchangeNotFound
        if log is not None and (log.final is not None or self._relay.running(exchange_id) is not None):
            return log
        return await self.view_of(await owned_exchange(self._store, user.id, exchange_id))

    async def view_of(self, record: ExchangeRecord) -> ExchangeLog | Final:
        """The log of an exchange as it is stored or, where it has ended, its final."""
        match record.status:
            case ExchangeStatus.RUNNING:
                return await self._running_log(record)
            case ExchangeStatus.AWAITING_HUMAN:
                return await self.waiting_log(record)
            case _:
                return await self.final_of(record)

    async def _running_log(self, record: ExchangeRecord) -> ExchangeLog:
        """The log of an exchange that runs elsewhere, or is about to run here."""
        if record.owner == self._instance.id and not self._relay.holds(record.id):
            # The store has begun it, and its log is about to be made.
            await self._relay.admitted()
        log = self._relay.mirror(record.session_id, record.id, record.user_id)
        if log.last_seq == 0 and not log.is_filling:
            # Nobody shows it to us: what the store has is all that can be seen until it ends.
            messages = await self._store.exchange_messages(record.id)
            if log.last_seq == 0:
                log.start_anew(messages, record.partial, max(record.last_seq, 1))
        return log

    async def waiting_log(self, record: ExchangeRecord) -> ExchangeLog:
        """The log of an exchange that waits: as it is here, else made anew; others may go on with it."""
        log = self._relay.mirror(record.session_id, record.id, record.user_id)
        if log.last_seq < record.last_seq:
            log.start_anew(await self._store.exchange_messages(record.id), (), record.last_seq + SEQ_JUMP)
            log.append(AwaitingHuman, payload=remaining(record, ()))
        return log

    async def final_of(self, record: ExchangeRecord) -> Final:
        """The final of an ended exchange, made anew from the store."""
        return Final(
            session_id=record.session_id,
            exchange_id=record.id,
            seq=record.last_seq,
            status=record.status,
            messages=await self._store.exchange_messages(record.id),
            session=await self._store.get_session(record.session_id),
            usage=record.usage,
            error=record.error,
        )

    async def refresh(self, log: ExchangeLog) -> None:
        """Show those who follow an exchange that doesn't run here its end, or its pause, if only the store has it."""
        record = await self._store.get_exchange(log.exchange_id)
        if record is not None and record.status is ExchangeStatus.RUNNING:
            return
        if record is None:
            _end_without_a_record(log)
            return
        if record.status is ExchangeStatus.AWAITING_HUMAN:
            await self.waiting_log(record)
        elif log.final is None:
            final = await self.final_of(record)
            if log.final is None:
                log.end_with(final)


def _end_without_a_record(log: ExchangeLog) -> None:
    """Its session was deleted while it ran."""
    # Which request began it is deleted too.
    error = ErrorInfo.of(Interrupted(), request_id="")
    log.append(
        ExchangeError,
        code=error.code,
        content=error.content,
        retryable=error.retryable,
        request_id=error.request_id,
    )
    log.append(
        Final,
        status=ExchangeStatus.INTERRUPTED,
        messages=log.messages,
        session=None,
        usage=TokenUsage(),
        error=error,
    )
