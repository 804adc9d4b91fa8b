"""Runs: finds a run by the name that its client knows.

A run is an exchange and, where that was interrupted, the exchanges that have resumed it one after the other. Its name
is the client's id for the first one, or else the first one's own id.
"""

from agentic_backend.auth.user import User
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.sessions.access import owned_exchange
from agentic_backend.stores.base import Store
from agentic_backend.stores.records import ExchangeRecord
from agentic_backend.stores.tables import EXCHANGES


class Runs:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def is_exchange_id(self, user: User, run_id: str) -> bool:
        """Whether this is no name that a client gave, but the id of one of the user's exchanges."""
        exchange = await self._store.get_exchange(run_id)
        return exchange is not None and exchange.user_id == user.id

    async def newest(self, user: User, run_id: str) -> ExchangeRecord:
        """The last exchange of the user's run. Raises ExchangeNotFound."""
        named = await self._store.find_exchange(user.id, run_id)
        newest = named or await owned_exchange(self._store, user.id, run_id)
        while newest.status is ExchangeStatus.INTERRUPTED and (later := await self._resumed(newest)) is not None:
            newest = later
        return newest

    async def _resumed(self, interrupted: ExchangeRecord) -> ExchangeRecord | None:
        """The exchange that has resumed this one. It is the next one of the session: any other ends what can be
        resumed.
        """
        following = await self._store.page(EXCHANGES, interrupted.first_rank, 1, session_id=interrupted.session_id)
        if not following or following[0].resumes != interrupted.id:
            return None
        # Read by its id: a page also has what is just being begun, and may come to nothing.
        return await self._store.get_exchange(following[0].id)
