"""ExchangeViews: what a client can follow of an exchange, wherever it runs, waits or has ended."""

from agentic_backend.auth.user import User
from agentic_backend.broadcast.exchange_log import ExchangeLog
from agentic_backend.errors import ExchangeNotFound, Interrupted
from agentic_backend.protocol.events import AwaitingHuman, ErrorInfo, ExchangeError, Final, HumanRequests
from agentic_backend.protocol.messages import ChatMessage, ExchangeStatus, TokenUsage
from agentic_backend.sessions.access import owned_exchange
from agentic_backend.sessions.approvals import remaining
from agentic_backend.sessions.instance import Instance
from agentic_backend.sessions.relay import Relay
from agentic_backend.stores.base import Store
from agentic_backend.stores.records import ExchangeRecord

_VIEW_BYTES = 1024 * 1024


def waiting_seq(record: ExchangeRecord, rest: HumanRequests) -> int:
    """The seq of what tells that an exchange which waits, as `record` says, waits for the `rest`."""
    asked = record.pending.requests if record.pending is not None else rest.requests
    return record.last_seq + len(asked) - len(rest.requests)


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
        if not log.is_mirrored and log.last_seq <= record.last_seq:
            # Nobody shows it to us: what the store has is all that can be seen until it ends. It stands where the
            # owner's epoch begins, which is no place in the owner's own log.
            # In this order no text shows twice: what is stored in between is not partial any more.
            messages = await self._messages(record)
            partial = await self._store.partial(record.id)
            if log.last_seq <= record.last_seq:
                log.start_anew(messages, partial, record.last_seq)
        return log

    async def waiting_log(self, record: ExchangeRecord) -> ExchangeLog:
        """The log of an exchange that waits: as it is here, else made anew; others may go on with it.

        Made anew it has the seqs that it has everywhere, for all of it is in the store.
        """
        log = self._relay.mirror(record.session_id, record.id, record.user_id)
        rest = remaining(record, ())
        last_seq = waiting_seq(record, rest)
        if log.last_seq < last_seq:
            messages = await self._messages(record)
            if log.last_seq < last_seq:
                log.start_anew(messages, (), last_seq - 1)
                log.append(AwaitingHuman, payload=rest)
        return log

    async def final_of(self, record: ExchangeRecord) -> Final:
        """The final of an ended exchange, made anew from the store. Raises ExchangeNotFound: it is deleted."""
        messages = await self._messages(record)
        # After the messages: where the session is still there, none of them was missing.
        session = await self._store.get_session(record.session_id)
        if session is None:
            raise ExchangeNotFound
        return Final(
            session_id=record.session_id,
            exchange_id=record.id,
            seq=record.last_seq,
            status=record.status,
            messages=messages,
            session=session,
            usage=record.usage,
            error=record.error,
        )

    async def refresh(self, log: ExchangeLog) -> bool:
        """Show those who follow an exchange that doesn't run here its end, or its pause, if only the store has it.

        False where there is no such exchange.
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
        """What a `final` or a `reset` shows: of an exchange that is too large its first and its last messages."""
        return await self._store.exchange_messages(record.id, _VIEW_BYTES)


def end_deleted(log: ExchangeLog) -> None:
    """Show those who follow an exchange that its session was deleted while it ran."""
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
