"""Developer authentication: trusts the name that a client gives.

A client without a token is the configured developer. `dev:NAME` is a token of the user NAME, and `dev:NAME:SECONDS`
one that expires at that Unix time, so that several users and an expiry can be tried on one machine.
"""

import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from agentic_backend.auth.user import Tokens, User
from agentic_backend.errors import TokenExpired, Unauthenticated

_TOKEN = re.compile(r"dev:(?P<name>[A-Za-z0-9][A-Za-z0-9_.@-]{0,63})(:(?P<expires>\d{1,12}))?")


class DeveloperAuthenticator:
    def __init__(
        self,
        user: str,
        clock: Callable[[], float] = time.time,
        *,
        groups: Collection[str] = (),
        scope: Mapping[str, str] | None = None,
    ) -> None:
        """`groups` and `scope` are those of every user."""
        self._groups, self._scope = frozenset(groups), dict(scope or {})
        self._developer = replace(self._user(user), roles=frozenset({"admin"}), is_admin=True)
        """The user of clients without a token."""
        self._clock = clock

    @property
    def anonymous(self) -> User | None:
        return self._developer

    @property
    def ready(self) -> bool:
        return True

    async def authenticate(self, access_token: str) -> User:
        token = _TOKEN.fullmatch(access_token)
        if token is None:
            raise Unauthenticated(reason="malformed")
        expires_at = float(token["expires"]) if token["expires"] else None
        if expires_at is not None and expires_at <= self._clock():
            raise TokenExpired
        return replace(self._user(token["name"]), expires_at=expires_at)

    async def refresh(self, refresh_token: str, user_id: str) -> Tokens:
        try:
            user = await self.authenticate(refresh_token)
        except TokenExpired:
            raise Unauthenticated from None
        if user.id != user_id:
            raise Unauthenticated
        return Tokens(access_token=refresh_token, refresh_token=refresh_token, expires_at=user.expires_at)

    def _user(self, name: str) -> User:
        return User(id=name, name=name, groups=self._groups, scope=self._scope, is_developer=True)

    async def exchange(self, access_token: str, audience: str) -> Tokens:
        user = await self.authenticate(access_token)
        return Tokens(access_token=access_token, expires_at=user.expires_at)
