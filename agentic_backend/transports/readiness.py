"""Readiness: whether the server can take asks. Expensive checks run at most once a second."""

import asyncio

from agentic_backend.auth.user import Authenticator
from agentic_backend.errors import AgenticError, StoreUnavailable
from agentic_backend.relay.relay import Relay
from agentic_backend.stores.base import Store
from agentic_backend.stores.sqlite.pages import PagesWatch

READY = "ok"
_HOLDS_S = 1.0
# Probes usually time out after a second or a few.
_PROOF_S = 1.5


class Readiness:
    """`pages` watches the SQLite file for damage; None for another store."""

    def __init__(self, store: Store, relay: Relay, authenticator: Authenticator, pages: PagesWatch | None) -> None:
        self._store = store
        self._relay = relay
        self._authenticator = authenticator
        self._pages = pages
        self._clock = asyncio.get_running_loop().time
        self._turn = asyncio.Lock()
        self._store_status, self._proved_until = READY, 0.0

    async def status(self) -> str:
        """READY, or the reason: `shutting_down`, `store_damaged`, `store_unavailable`, `auth_unavailable`."""
        if self._relay.draining:
            return "shutting_down"
        if self._pages is not None and self._pages.damage is not None:
            return "store_damaged"
        async with self._turn:
            if self._clock() >= self._proved_until:
                self._store_status = await self._prove_write()
                self._proved_until = self._clock() + _HOLDS_S
        if self._store_status != READY:
            return self._store_status
        return READY if self._authenticator.ready else "auth_unavailable"

    async def _prove_write(self) -> str:
        try:
            async with asyncio.timeout(_PROOF_S):
                await self._store.prove_write()
        except TimeoutError:
            return StoreUnavailable.code
        except AgenticError as error:
            return error.code
        return READY
