"""JwksCache: a realm's signing keys in memory, so that checking a token needs no request.

Owned by the KeycloakAuthenticator. A background task fetches the keys regularly; an unknown key id causes a fetch too,
but not sooner than 30 s after the last one. Only one fetch runs at a time, and callers that need it wait for it. If
fetches fail, the known keys stay valid for a day. Each fetch replaces the whole key set, so a key that the realm has
dropped is no longer accepted.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping

from jwt import PyJWK

from agentic_backend.backoff import backoff
from agentic_backend.errors import AuthUnavailable
from agentic_backend.system_errors import Away

log = logging.getLogger(__name__)

REFRESH_S = 300.0
FIRST_RETRY_S, ASK_AGAIN_S = 1.0, 30.0
STALE_AT_MOST_S = 86_400.0


class KeysUnavailable(Exception):
    """The keys can't be fetched; the text says why, `why` in one word."""

    def __init__(self, text: str, why: Away = "other") -> None:
        super().__init__(text)
        self.why = why


class JwksCache:
    def __init__(
        self,
        fetch: Callable[[], Awaitable[Mapping[str, PyJWK]]],
        observe: Callable[[Away | None], None] = lambda why: None,
        *,
        clock: Callable[[], float] = time.monotonic,
        refresh_s: float = REFRESH_S,
    ) -> None:
        """`fetch` returns the keys by their ids, or raises KeysUnavailable; it has its own timeouts.

        `observe` is called after each fetch with why it failed; None if it succeeded.
        """
        self._fetch = fetch
        self._observe = observe
        self._clock = clock
        self._refresh_s = refresh_s
        """The interval in seconds after a successful fetch."""
        self._keys: Mapping[str, PyJWK] = {}
        """The keys of the last successful fetch, by their ids."""
        # Times of the last successful fetch, and of the last start of a fetch.
        self._fetched_at = self._asked_at = 0.0
        self._away_for: Away | None = None
        """Why the last fetch failed; None if it did not."""
        # The delays after failures, and the present one.
        self._delays, self._retry_s = backoff(FIRST_RETRY_S, ASK_AGAIN_S), 0.0
        self._fetching: asyncio.Task[None] | None = None
        """The running fetch; several callers may wait for it."""
        self._refreshing: asyncio.Task[None] | None = None
        """The background task, from `open` to `aclose`."""

    @property
    def ready(self) -> bool:
        """Whether it has keys that are at most a day old."""
        return bool(self._keys) and self._clock() - self._fetched_at < STALE_AT_MOST_S

    async def open(self) -> None:
        """Fetch once, and from then on in the background. Returns even if the first fetch fails."""
        await self._fetched()
        self._refreshing = asyncio.create_task(self._refresh())

    async def key(self, key_id: str) -> PyJWK | None:
        """The key with this id; None if the realm has none. Raises AuthUnavailable if no keys are known."""
        if key_id not in self._keys and self._may_ask():
            await self._fetched()
        if not self.ready:
            raise AuthUnavailable
        return self._keys.get(key_id)

    async def aclose(self) -> None:
        # The refresh before the fetch, or it would begin another one; callers that wait for the fetch are cancelled.
        tasks = {task for task in (self._refreshing, self._fetching) if task is not None}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _may_ask(self) -> bool:
        return self._fetching is not None or self._clock() - self._asked_at >= ASK_AGAIN_S

    async def _fetched(self) -> None:
        """Wait for the running fetch, or for a new one."""
        if self._fetching is None:
            self._asked_at = self._clock()
            self._fetching = asyncio.create_task(self._fetch_keys())
        # Shielded, since other callers may wait for it too.
        await asyncio.shield(self._fetching)

    async def _fetch_keys(self) -> None:
        try:
            self._keys = await self._fetch()
        except KeysUnavailable as error:
            self._away_for, self._retry_s = error.why, next(self._delays)
            age_s = round(self._clock() - self._fetched_at) if self._keys else None
            told = {"reason": error.why, "error": str(error), "age_of_known_keys_s": age_s}
            log.warning("signing keys not fetched", extra=told)
        else:
            if self._away_for is not None:
                log.info("signing keys fetched again")
            self._fetched_at, self._away_for = self._clock(), None
            self._delays = backoff(FIRST_RETRY_S, ASK_AGAIN_S)
        finally:
            self._fetching = None
        self._observe(self._away_for)

    async def _refresh(self) -> None:
        while True:
            # A fetch for an unknown key id has refreshed all keys in the meantime.
            left_s = self._asked_at + self._pause_s() - self._clock()
            if left_s > 0:
                # No longer, because a fetch for an unknown key id may fail meanwhile, and then the pause is shorter.
                await asyncio.sleep(min(left_s, ASK_AGAIN_S))
            else:
                await self._fetched()

    def _pause_s(self) -> float:
        if self._away_for is None:
            return self._refresh_s
        # Without keys retry soon, so that a server that started before Keycloak is ready shortly after it.
        return ASK_AGAIN_S if self.ready else self._retry_s
