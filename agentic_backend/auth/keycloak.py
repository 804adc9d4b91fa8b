"""Keycloak authentication: checks access tokens of one realm with its public keys, without asking Keycloak."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial

from agentic_backend.auth.access_token import AccessTokenVerifier
from agentic_backend.auth.jwks import JwksCache
from agentic_backend.auth.keycloak_realm import KeycloakRealm
from agentic_backend.auth.user import Tokens, User
from agentic_backend.config.settings import KeycloakSettings
from agentic_backend.errors import Forbidden, TokenExpired, Unauthenticated
from agentic_backend.system_errors import Away


class KeycloakAuthenticator:
    def __init__(
        self,
        verifier: AccessTokenVerifier,
        keys: JwksCache,
        realm: KeycloakRealm,
        check: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._verifier = verifier
        self._keys = keys
        self._realm = realm
        self._check = check

    @property
    def anonymous(self) -> User | None:
        return None

    @property
    def ready(self) -> bool:
        return self._keys.ready

    async def authenticate(self, access_token: str) -> User:
        key = await self._keys.key(self._verifier.key_id(access_token))
        if key is None:
            raise Unauthenticated(reason="unknown_key")
        return self._verifier.user_of(access_token, key)

    async def refresh(self, refresh_token: str, user_id: str) -> Tokens:
        tokens = await self._realm.refresh(refresh_token)
        try:
            with self._check():
                newer = await self.authenticate(tokens.access_token)
        except (Forbidden, TokenExpired) as error:
            # To whoever renews, a user who has lost a role is one who can't renew.
            raise Unauthenticated(error.content) from error
        if newer.id != user_id:
            raise Unauthenticated("The refresh token is another user's.")
        return replace(tokens, expires_at=newer.expires_at)

    async def exchange(self, access_token: str, audience: str) -> Tokens:
        return await self._realm.exchange(access_token, audience)


@asynccontextmanager
async def keycloak_authenticator(
    settings: KeycloakSettings,
    observe: Callable[[str, Away | None], None],
    check: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> AsyncIterator[KeycloakAuthenticator]:
    """An authenticator that keeps its keys fresh while the context is open.

    `observe` is called after each fetch (`keys`) with why it failed, None if it succeeded; and after a `refresh` or
    `exchange` of tokens with whether the client was refused. The context opens even if Keycloak can't be reached; the
    authenticator is ready once it can. A renewed token is checked inside a context of `check`.
    """
    realm = await asyncio.to_thread(KeycloakRealm, settings, observe)
    keys = JwksCache(realm.keys, partial(observe, "keys"))
    try:
        await keys.open()
        yield KeycloakAuthenticator(AccessTokenVerifier(settings), keys, realm, check)
    finally:
        # The keys first, since their refresh uses the realm's connections.
        await keys.aclose()
        await realm.aclose()
