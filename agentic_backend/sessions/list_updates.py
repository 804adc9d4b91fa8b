"""ListUpdates: reads what is new of sessions, and tells those who follow all sessions of a user here.

The relay only says which session has changed. What is told is read from the store after that, by one task: so it is
never older than the change, nor than what was told before, whichever instance has changed what. Only sessions of users
who follow their list are read.
"""

import asyncio
import logging
from dataclasses import dataclass
from itertools import islice

from agentic_backend.backoff import backoff
from agentic_backend.errors import StoreUnavailable
from agentic_backend.loop.event_loop import is_cancelled
from agentic_backend.protocol.events import SessionChanged, SessionDeleted
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.relay.subscriptions import ListSubscriptions
from agentic_backend.sessions.session_statuses import statuses_of
from agentic_backend.stores.base import Store

log = logging.getLogger(__name__)

# Sessions to be read; beyond that, who follows their list reads it again.
_UNREAD_AT_MOST = 10_000
_AT_ONCE = 100
_RETRY_FIRST_S, _RETRY_AT_MOST_S = 0.2, 5.0


@dataclass(frozen=True, slots=True)
class _Change:
    user_id: str
    ended: ExchangeStatus | None
    """How an exchange of the session has just ended."""


class ListUpdates:
    """`open_sessions` owns the task of `run`."""

    def __init__(self, store: Store, subscriptions: ListSubscriptions) -> None:
        self._store = store
        self._subscriptions = subscriptions
        self._unread: dict[str, _Change] = {}
        """The sessions to be read, by id, the longest known first."""
        self._wanted = asyncio.Event()

    def heard(self, user_id: str, session_id: str, ended: ExchangeStatus | None) -> None:
        """The session has begun, changed or gone (see Relay.tell_lists)."""
        if not self._subscriptions.has(user_id):
            return
        before = self._unread.get(session_id)
        self._unread[session_id] = _Change(user_id, ended or (before.ended if before is not None else None))
        if len(self._unread) > _UNREAD_AT_MOST:
            log.warning("session list updates dropped")
            self._unread.clear()
            self._subscriptions.missed()
        self._wanted.set()

    async def run(self) -> None:
        """Read and tell until cancelled."""
        delays = backoff(_RETRY_FIRST_S, _RETRY_AT_MOST_S)
        while not is_cancelled():
            # No timeout: nothing may change for a long time.
            await self._wanted.wait()
            self._wanted.clear()
            try:
                while self._unread:
                    await self._tell_some()
                delays = backoff(_RETRY_FIRST_S, _RETRY_AT_MOST_S)
            except StoreUnavailable:
                self._wanted.set()
                await asyncio.sleep(next(delays))
            except Exception as error:
                # If the loop ended, nobody would be told of anything any more.
                log.error("session list updates failed", exc_info=error)
                self._unread.clear()
                self._subscriptions.missed()

    async def _tell_some(self) -> None:
        some = dict(islice(self._unread.items(), _AT_ONCE))
        found = {session_id: await self._store.get_session(session_id) for session_id in some}
        statuses = await statuses_of(self._store, [session for session in found.values() if session is not None])
        for session_id, change in some.items():
            # What was heard during the read is read again.
            if self._unread.get(session_id) is change:
                del self._unread[session_id]
            session = found[session_id]
            if session is None or session.user_id != change.user_id:
                self._subscriptions.tell(change.user_id, SessionDeleted(session_id=session_id))
            else:
                status = change.ended if session.active_exchange_id is None else statuses.get(session_id)
                self._subscriptions.tell(change.user_id, SessionChanged(session=session.shown(), status=status))
