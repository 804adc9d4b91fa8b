"""UserDeletions: deletes all of a user's data, in every table and on every instance.

The store knows which users' data are being deleted, for a minute each. Until then every instance, which looks every few
seconds, stops what runs of theirs, lets go of what it holds in memory, and refuses what they ask. At the end of the
minute one instance deletes once more what was written late: by a tool that has ignored its stop, by a title, by an
instance that has not looked yet. So an ask during a deletion is refused, or deleted with the rest. If a process dies,
another one ends its deletions.

Where there are budgets, the costs of the period that runs stay, under a name that only the user's id leads to, so that
a deletion doesn't renew a budget.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from agentic_backend.agents.agent_factory import AgentFactory
from agentic_backend.auth.user import User
from agentic_backend.errors import SessionNotFound, StoreUnavailable
from agentic_backend.relay.relay import Relay
from agentic_backend.sessions.session_service import SessionService
from agentic_backend.sessions.users.attachments import Attachments
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.user_rows import hidden_name
from agentic_backend.stores.records import UserDeletion
from agentic_backend.stores.tables import SESSIONS, TABLES

log = logging.getLogger(__name__)

SETTLE_S = 60.0
# Other writes wait for it, and users may delete their data as often as they like.
ERASE_EVERY_S = 3600.0
_SESSIONS, _ROWS = 100, 500


class UserDeletions:
    def __init__(
        self,
        store: Store,
        relay: Relay,
        factory: AgentFactory,
        sessions: SessionService,
        attachments: Attachments,
        forgetting: Sequence[Callable[[str], None]],
        counted_since: Callable[[], datetime | None],
        forget_in_applications: Callable[[str], Awaitable[None]],
        *,
        settle_s: float = SETTLE_S,
    ) -> None:
        """`forgetting` are called with a user's id, and drop what this process holds of the user elsewhere.

        `counted_since` says from when on budgets count what was spent (see Budgets). `forget_in_applications` is
        awaited with a user's id before the records of applications are deleted.
        """
        self._store = store
        self._relay = relay
        self._factory = factory
        self._sessions = sessions
        self._attachments = attachments
        self._forgetting = forgetting
        self._counted_since = counted_since
        self._forget_in_applications = forget_in_applications
        self._settle_s = settle_s
        self._erase_at = 0.0
        """When the database's file may be packed next, in the event loop's time."""
        self._leaving: set[str] = set()
        """The users whose data are being deleted, as far as this process knows."""
        self._at_work: dict[str, asyncio.Task[None]] = {}
        """The deletions that were asked for here, by user id; the relay owns their tasks."""

    async def delete(self, user_id: str) -> None:
        """Delete all of the user's data; it goes on if the caller gives up. Raises StoreUnavailable, Internal."""
        at_work = self._at_work.get(user_id)
        if at_work is None:
            at_work = self._at_work[user_id] = self._relay.spawn(self._delete(user_id))
            at_work.add_done_callback(lambda _: self._at_work.pop(user_id, None))
        await asyncio.shield(at_work)

    async def look(self) -> None:
        """Take part in all deletions: stop and forget what is here of these users."""
        deletions = await self._store.deletions()
        before, self._leaving = self._leaving, {each.user_id for each in deletions if not each.is_over}
        # Those whose deletion has ended once more: something may have run until then.
        await self._forget(before | self._leaving)
        self._relay.forget_users(self._leaving)

    async def finish(self, limit: int) -> int:
        """End at most `limit` deletions whose time is over; how many. A repetition changes nothing."""
        now = self._store.now()
        due = [each for each in await self._store.deletions() if each.until <= now][:limit]
        for deletion in due:
            if not deletion.is_over:
                await self._sweep(deletion.user_id)
                await self._store.keep_deletion(replace(deletion, is_over=True))
        if not due or not await self._erased():
            return 0
        for deletion in due:
            await self._store.end_deletion(deletion)
        return len(due)

    async def delete_hidden_usage(self, limit: int) -> int:
        """Delete at most `limit` usage records of deleted users that no budget counts any more; how many."""
        return await self._store.delete_hidden_usage(self._counted_since() or self._store.now(), limit)

    async def _delete(self, user_id: str) -> None:
        now = self._store.now()
        await self._store.keep_deletion(
            UserDeletion(user_id=user_id, at=now, until=now + timedelta(seconds=self._settle_s))
        )
        self._leaving.add(user_id)
        await self._forget(self._leaving)
        # What was admitted before has begun now, so that it is found.
        await self._relay.admitted()
        self._relay.forget_users(self._leaving)
        await self._sweep(user_id)

    async def _forget(self, user_ids: Collection[str]) -> None:
        self._relay.forget_users(user_ids)
        for user_id in list(user_ids):
            for forget in self._forgetting:
                forget(user_id)
            await self._factory.teardown_user_agents(user_id)

    async def _sweep(self, user_id: str) -> None:
        while session_ids := await self._store.sessions_to_delete(user_id, _SESSIONS):
            for session_id in session_ids:
                await self._delete_session(user_id, session_id)
        # With their contents, which are in no table.
        await self._attachments.remove_of_user(user_id)
        if (since := self._counted_since()) is not None:
            while await self._store.hide_usage(user_id, hidden_name(user_id), since, _ROWS):
                pass
        await self._forget_in_applications(user_id)
        for table in TABLES:
            while table.user is not None and table is not SESSIONS:
                if not await self._store.delete_user_rows(table, user_id, _ROWS):
                    break

    async def _delete_session(self, user_id: str, session_id: str) -> None:
        try:
            await self._sessions.delete(User(user_id, ""), session_id)
        except SessionNotFound:
            # It was begun or deleted only half.
            await self._sessions.remove(user_id, session_id)

    async def _erased(self) -> bool:
        """Whether the database's file has been packed, or can't be; False if that was done too recently."""
        clock = asyncio.get_running_loop().time()
        if clock < self._erase_at:
            return False
        self._erase_at = clock + ERASE_EVERY_S
        try:
            await self._store.erase()
        except StoreUnavailable:
            log.warning("database file not packed in time")
        return True
