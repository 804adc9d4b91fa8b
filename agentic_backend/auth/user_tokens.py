"""UserTokens: one user's newest tokens, which all connections and runs of the user here share.

So a newer token reaches what runs already, whatever brings it: a client, or a renewal for one of the runs. They are in
memory only, and go when the last connection, run and warm agent of the user goes.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import Context
from dataclasses import replace
from functools import partial
from weakref import WeakValueDictionary

from agentic_backend.auth.user import Tokens
from agentic_backend.errors import AuthUnavailable, TokenExpired, Unauthenticated

_EARLY_S = 30.0
"""How long before its end a token is renewed, in seconds; a token that lasts briefly, in the last fifth of its time."""
_CALM_S = 10.0
"""After a renewal that failed, how long a token that is still valid is used without another try, in seconds."""
_MOST_LATEST = 32

Refresh = Callable[[str], Awaitable[Tokens]]
"""Trades a refresh token for newer tokens. Raises Unauthenticated or AuthUnavailable; has its own timeout."""


async def _no_refresh(refresh_token: str) -> Tokens:
    raise Unauthenticated("There is nobody to get a newer access token from.")


class UserTokens:
    def __init__(self, refresh: Refresh = _no_refresh) -> None:
        self._refresh = refresh
        self._newest: Tokens | None = None
        """None until the user has brought a token."""
        self.latest: deque[str] = deque(maxlen=_MOST_LATEST)
        """The access and refresh tokens that came last: a run may have seen any of them."""
        self._renew_at = math.inf
        """From when on the newest access token is renewed before it is used, in Unix seconds."""
        self._renewal: asyncio.Task[None] | None = None
        """The renewal that runs; all who need it wait for it."""
        self._refused: str | None = None
        """The access token that a service refused last: any other one replaces it."""
        self._refused_refresh: str | None = None
        """The refresh token that was refused last: it is not tried again, whoever brings it."""

    @property
    def newest(self) -> Tokens | None:
        return self._newest

    @property
    def access_token(self) -> str | None:
        return self._newest.access_token if self._newest is not None else None

    @property
    def refresh_token(self) -> str | None:
        return self._newest.refresh_token if self._newest is not None else None

    def offer(self, tokens: Tokens | None) -> None:
        """Take verified tokens of the user, unless they end before those here, which no service has refused.

        An access token without a refresh token leaves the refresh token here as it is.
        """
        here = self._newest
        if tokens is None:
            return
        if tokens.refresh_token == self._refused_refresh:
            tokens = replace(tokens, refresh_token=None)
        if tokens == here:
            return
        if here is None or not _ends_before(tokens, here):
            self._take(replace(tokens, refresh_token=tokens.refresh_token or self.refresh_token))
        elif here.access_token == self._refused:
            # The refresh token of an older pair may be used up.
            self._take(replace(tokens, refresh_token=here.refresh_token or tokens.refresh_token))
        elif here.refresh_token is None:
            self._keep(replace(here, refresh_token=tokens.refresh_token))

    async def usable(self, refused: str | None = None) -> str | None:
        """The access token for a request: renewed if it is about to end, or if a service has `refused` it.

        None if the user has brought none; `refused` itself if there is no other. Raises Unauthenticated,
        AuthUnavailable or TokenExpired if the token is over and can't be renewed.
        """
        here = self._newest
        if here is None:
            return None
        is_refused = here.access_token == refused
        if is_refused:
            self._refused = refused
        elif time.time() < self._renew_at:
            return here.access_token
        has_expired = here.expires_at is not None and here.expires_at <= time.time()
        if here.refresh_token is None:
            if is_refused and has_expired:
                raise TokenExpired("The access token has expired, and there is no refresh token to renew it with.")
            # Otherwise the service decides: its clock may differ from ours.
            return here.access_token
        try:
            return await self.renewed(here.access_token)
        except (Unauthenticated, AuthUnavailable):
            if is_refused or has_expired:
                raise
            self._renew_at = time.time() + _CALM_S
            return here.access_token

    async def renewed(self, old: str | None = None) -> str:
        """An access token that is newer than `old`, by default than the one here; concurrent callers share a renewal.

        Raises Unauthenticated or AuthUnavailable.
        """
        old = old or self.access_token
        if self._newest is None or (self._newest.access_token == old and self._newest.refresh_token is None):
            raise Unauthenticated("There is no valid refresh token to get a newer access token with; sign in again.")
        if self._newest.access_token != old:
            return self._newest.access_token
        if self._renewal is None:
            # In an empty context, because it belongs to no run; and in a task, because a caller may be cancelled when
            # the refresh token is used up and the next one has not come yet.
            self._renewal = asyncio.create_task(self._renew(self._newest), context=Context())
            self._renewal.add_done_callback(self._renewal_ended)
        await asyncio.shield(self._renewal)
        return self._newest.access_token

    async def aclose(self) -> None:
        """End a renewal that runs."""
        if (renewal := self._renewal) is not None:
            renewal.cancel()
            await asyncio.wait({renewal})

    async def _renew(self, old: Tokens) -> None:
        """Replace `old`, the tokens here. If a client brings newer ones meanwhile, a failure doesn't matter."""
        assert old.refresh_token is not None
        try:
            renewed = await self._refresh(old.refresh_token)
        except (Unauthenticated, AuthUnavailable) as error:
            if isinstance(error, Unauthenticated) and self.refresh_token == old.refresh_token:
                self._refused_refresh = old.refresh_token
                self._keep(replace(self._newest or old, refresh_token=None))
            if self.access_token == old.access_token:
                raise
            return
        if renewed.refresh_token is None:
            renewed = replace(renewed, refresh_token=old.refresh_token)
        if self.access_token == old.access_token:
            self._take(renewed)
        else:
            self.offer(renewed)
            if self.refresh_token == old.refresh_token:
                # The old one is used up.
                self._keep(replace(self._newest or old, refresh_token=renewed.refresh_token))

    def _renewal_ended(self, renewal: asyncio.Task[None]) -> None:
        self._renewal = None
        if not renewal.cancelled():
            # Its callers may all have been cancelled.
            renewal.exception()

    def _take(self, tokens: Tokens) -> None:
        self._keep(tokens)
        self._renew_at = renewal_time(tokens)

    def _keep(self, tokens: Tokens) -> None:
        self._newest = tokens
        for token in (tokens.access_token, tokens.refresh_token):
            if token and token not in self.latest:
                self.latest.append(token)


class TokenCache:
    """The tokens of each user who is connected, has something running or a warm agent here, by user id."""

    def __init__(self, refresh: Callable[[str, str], Awaitable[Tokens]]) -> None:
        """`refresh` trades a refresh token and the user's id for newer tokens, as `Authenticator.refresh` does."""
        self._refresh = refresh
        self._users: WeakValueDictionary[str, UserTokens] = WeakValueDictionary()

    def of(self, user_id: str) -> UserTokens:
        """The user's tokens; the cache forgets them when nobody else holds them."""
        tokens = self._users.get(user_id)
        if tokens is None:
            tokens = self._users[user_id] = UserTokens(partial(self._refresh_for, user_id))
        return tokens

    async def aclose(self) -> None:
        await asyncio.gather(*(tokens.aclose() for tokens in list(self._users.values())))

    async def _refresh_for(self, user_id: str, refresh_token: str) -> Tokens:
        return await self._refresh(refresh_token, user_id)


def renewal_time(tokens: Tokens) -> float:
    """From when on tokens that have just come should be renewed before they are used, in Unix seconds."""
    if tokens.expires_at is None:
        return math.inf
    lasts_s = max(0.0, tokens.expires_at - time.time())
    return tokens.expires_at - min(_EARLY_S, lasts_s / 5)


def _ends_before(one: Tokens, other: Tokens) -> bool:
    """Whether `one` is known to end before `other`."""
    return one.expires_at is not None and other.expires_at is not None and one.expires_at < other.expires_at
