"""ExchangePages: the exchanges of a session as a person sees them again, a page at a time."""

from dataclasses import dataclass

from agentic_backend.auth.user import User
from agentic_backend.exchange.end.resumable import is_resumable
from agentic_backend.sessions.access import owned_session
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.trail import ActivityRecord
from agentic_backend.stores.records import ExchangeRecord, SessionRecord

PAGE_BYTES = 1024 * 1024
"""The most bytes of what is asked and decided in a page of exchanges, unless a single one has more."""


@dataclass(frozen=True, slots=True)
class ListedExchange:
    record: ExchangeRecord
    activities: list[ActivityRecord]
    resumable: bool


@dataclass(frozen=True, slots=True)
class ListedExchanges:
    """Exchanges by rank, and the first rank of the one that follows them; None if none does."""

    exchanges: list[ListedExchange]
    next_rank: int | None


class ExchangePages:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def page(self, user: User, session_id: str, from_rank: int, limit: int) -> ListedExchanges:
        """The exchanges of the user's session from the one that has `from_rank` on.

        At most `limit`, and no more than fit into PAGE_BYTES, but at least one if there is any. Raises SessionNotFound.
        """
        await owned_session(self._store, user.id, session_id)
        page = await self._store.exchanges_from(session_id, from_rank, limit, PAGE_BYTES)
        activities: dict[str, list[ActivityRecord]] = {record.id: [] for record in page.exchanges}
        for activity in await self._store.activities_of(list(activities)):
            activities[activity.exchange_id].append(activity)
        # Read last: if the session still exists, nothing was missing because of a deletion.
        session = await owned_session(self._store, user.id, session_id)
        resumable = None
        if page.exchanges and page.next_rank is None:
            # Only the last one may be resumed: the next ask drops what it would go on from.
            resumable = await self._if_resumable(session, page.exchanges[-1])
        listed = [ListedExchange(record, activities[record.id], record.id == resumable) for record in page.exchanges]
        return ListedExchanges(listed, page.next_rank)

    async def _if_resumable(self, session: SessionRecord, last: ExchangeRecord) -> str | None:
        """The id of the session's last exchange, if it can be resumed; one that a branch shares can't, there."""
        own = last.session_id == session.id and session.active_exchange_id is None
        resumable = own and await is_resumable(self._store, last.id, last.status, session)
        return last.id if resumable else None
