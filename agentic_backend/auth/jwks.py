"""JwksCache: a realm's signing keys, always at hand, so that checking a token asks nobody.

Owned by the KeycloakAuthenticator. A task of its own fetches the keys again and again; a key id that is not known asks
too, but not sooner than 30 s after the last fetch. There is never more than one fetch at a time, and whoever wants a
key meanwhile waits for that one. Where a fetch fails, the keys stay good for a day. The cache is as large as the
realm's key set, which replaces it as a whole: a key that the realm has dropped is gone with the next fetch.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping

from jwt import PyJWK

from agentic_backend.errors import Internal

log = logging.getLogger(__name__)

REFRESH_S = 300.0
ASK_AGAIN_S = 30.0
STALE_AT_MOST_S = 86_400.0


class KeysUnavailable(Exception):
    """The keys could not be fetched; the text says why."""


class JwksCache:
    def __init__(
        self,
        fetch: Callable[[], Awaitable[Mapping[str, PyJWK]]],
        observe: Callable[[bool], None] = lambda fetched: None,
        *,
        clock: Callable[[], float] = time.monotonic,
        refresh_s: float = REFRESH_S,
    ) -> None:
        """`fetch` gives the keys by their ids, or raises KeysUnavailable; it has timeouts of its own.

        `observe` is told of each fetch whether it succeeded.
        """
        self._fetch = fetch
        self._observe = observe
        self._clock = clock
        self._refresh_s = refresh_s
        self._keys: Mapping[str, PyJWK] = {}
        self._fetched_at = 0.0
        self._asked_at = 0.0
        self._failures = 0
        self._fetching: asyncio.Task[None] | None = None
        self._refreshing: asyncio.Task[None] | None = None

    @property
    def ready(self) -> bool:
        """Whether there are keys, at most a day old."""
        return bool(self._keys) and self._clock() - self._fetched_at < STALE_AT_MOST_S

    async def open(self) -> None:
        """Fetch once, and from then on in the background. Returns also where the first fetch failed."""
        await self._fetched()
        self._refreshing = asyncio.create_task(self._refresh())

    async def key(self, key_id: str) -> PyJWK | None:
        """The key of this id; None: the realm has none. Raises Internal where no keys are known."""
        if key_id not in self._keys and self._may_ask():
            await self._fetched()
        if not self.ready:
            raise Internal("Tokens can't be checked at the moment; try again soon.")
        return self._keys.get(key_id)

    async def aclose(self) -> None:
        tasks = {task for task in (self._refreshing, self._fetching) if task is not None}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _may_ask(self) -> bool:
        return self._fetching is not None or self._clock() - self._asked_at >= ASK_AGAIN_S

    async def _fetched(self) -> None:
        """Wait for the fetch that runs, or for a new one."""
        if self._fetching is None:
            self._asked_at = self._clock()
            self._fetching = asyncio.create_task(self._fetch_keys())
        # Shielded: others wait for it too.
        await asyncio.shield(self._fetching)

    async def _fetch_keys(self) -> None:
        try:
            self._keys = await self._fetch()
        except KeysUnavailable as error:
            self._failures += 1
            age_s = round(self._clock() - self._fetched_at) if self._keys else None
            log.warning("signing keys not fetched", extra={"reason": str(error), "age_of_known_keys_s": age_s})
        else:
            if self._failures:
                log.info("signing keys fetched again")
            self._fetched_at, self._failures = self._clock(), 0
        finally:
            self._fetching = None
        self._observe(self._failures == 0)

    async def _refresh(self) -> None:
        while True:
            # Whoever has asked for an unknown key meanwhile has refreshed all of them.
            left_s = self._asked_at + self._pause_s() - self._clock()
            if left_s > 0:
                await asyncio.sleep(left_s)
            else:
                await self._fetched()

    def _pause_s(self) -> float:
        if not self._failures:
            return self._refresh_s
        if self.ready:
            return ASK_AGAIN_S
        # Soon at first, so that a server that started before Keycloak is ready shortly after it.
        return min(2.0 ** min(self._failures - 1, 10), ASK_AGAIN_S)
