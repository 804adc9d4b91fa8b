"""Whether the server is alive, and whether it can take asks. Both are asked from the internal listener's thread."""

import asyncio

from agentic_backend.auth.user import Authenticator
from agentic_backend.config.topics.observability import HealthSettings
from agentic_backend.errors import AgenticError, StoreUnavailable
from agentic_backend.loop.loop_load import LoopLoad, loop_load, served_timeout
from agentic_backend.relay.relay import Relay
from agentic_backend.stores.base import Store
from agentic_backend.stores.sqlite.page_check import PagesWatch

READY = "ok"
BLOCKED = "event_loop_blocked"
_SHUTTING_DOWN, _DAMAGED = "shutting_down", "store_damaged"
# No proof changes them.
_FOR_GOOD = (_SHUTTING_DOWN, _DAMAGED)
_HOLDS_S = 1.0
FAILURES = 2
"""So many proofs, one a second, have to fail one after the other before the server is not ready: instances that share a
slow store should not all leave at once."""
# For the turn of the event loop that the answer takes, beyond the proof itself.
_TURN_S = 0.5
# So often is noted that the event loop turns.
_BEAT_S = 1.0


class Liveness:
    """`load` is the event loop's; it may be silent for `health.live_after_s`."""

    def __init__(self, load: LoopLoad, health: HealthSettings) -> None:
        self._load = load
        self._silent_at_most_s = health.live_after_s

    def status(self) -> str:
        """READY or BLOCKED. From any thread."""
        return READY if self._load.silent_s < self._silent_at_most_s else BLOCKED


class Readiness:
    """Belongs to the event loop in which it was made. `pages` watches the SQLite file for damage; None for another."""

    def __init__(
        self,
        store: Store,
        relay: Relay,
        authenticator: Authenticator,
        pages: PagesWatch | None,
        health: HealthSettings,
    ) -> None:
        self._store = store
        self._relay = relay
        self._authenticator = authenticator
        self._pages = pages
        self._health = health
        self._loop = asyncio.get_running_loop()
        self._load = loop_load()
        self._turn = asyncio.Lock()
        # Not ready until it is proved once.
        self._store_status, self._proved_until = StoreUnavailable.code, 0.0
        self._failures = 0
        """Proofs that failed one after the other. So many instances share a slow store that one failure tells
        nothing.
        """

    async def status_from_elsewhere(self) -> str:
        """`status`, for another event loop; BLOCKED if the server's own does not turn.

        If it turns, but is late, what was proved last holds: who is overloaded still serves.
        """
        asked = asyncio.run_coroutine_threadsafe(self.status(), self._loop)
        try:
            async with asyncio.timeout(self._health.ready_timeout_s + _TURN_S):
                return await asyncio.wrap_future(asked)
        except TimeoutError:
            is_blocked = self._load.silent_s > self._health.ready_timeout_s + _BEAT_S
            return BLOCKED if is_blocked else self._known()

    async def status(self) -> str:
        """READY, or the reason: `shutting_down`, `store_damaged`, `store_unavailable`, `auth_unavailable`."""
        if self._known() not in _FOR_GOOD:
            async with self._turn:
                if self._loop.time() >= self._proved_until:
                    await self._look_at_store()
                    self._proved_until = self._loop.time() + _HOLDS_S
        return self._known()

    def _known(self) -> str:
        """`status` by the last proof. From any thread."""
        if self._relay.draining:
            return _SHUTTING_DOWN
        if self._pages is not None and self._pages.damage is not None:
            return _DAMAGED
        if self._store_status != READY:
            return self._store_status
        return READY if self._authenticator.ready else "auth_unavailable"

    async def _look_at_store(self) -> None:
        found = await self._prove_write()
        self._failures = 0 if found == READY else self._failures + 1
        is_blip = self._store_status == READY and 0 < self._failures < FAILURES
        if not is_blip:
            self._store_status = found

    async def _prove_write(self) -> str:
        try:
            async with served_timeout(self._health.ready_timeout_s):
                await self._store.prove_write()
        except TimeoutError:
            return StoreUnavailable.code
        except AgenticError as error:
            return error.code
        return READY
