"""Keycloak authentication: checks access tokens of one realm with its public keys, without asking Keycloak."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from agentic_backend.auth.access_token import AccessTokenVerifier
from agentic_backend.auth.jwks import JwksCache
from agentic_backend.auth.keycloak_realm import KeycloakRealm
from agentic_backend.auth.user import Tokens, User
from agentic_backend.config.settings import KeycloakSettings
from agentic_backend.errors import AuthUnavailable, Forbidden, TokenExpired, Unauthenticated


class KeycloakAuthenticator:
    def __init__(
        self, verifier: AccessTokenVerifier, keys: JwksCache, realm: KeycloakRealm, checked: Callable[[str], None]
    ) -> None:
        self._verifier = verifier
        self._keys = keys
        self._realm = realm
        self._checked = checked

    @property
    def anonymous(self) -> User | None:
        return None

    @property
    def ready(self) -> bool:
        return self._keys.ready

    async def authenticate(self, access_token: str) -> User:
        """Every door and every renewal checks its token here, so that the outcome is counted once."""
        try:
            key = await self._keys.key(self._verifier.key_id(access_token))
            if key is None:
                raise Unauthenticated(reason="unknown_key")
            user = self._verifier.user_of(access_token, key)
        except Unauthenticated as error:
            self._checked(error.reason or error.code)
            raise
        except (TokenExpired, Forbidden, AuthUnavailable) as error:
            self._checked(error.code)
            raise
        self._checked("accepted")
        return user

    async def refresh(self, refresh_token: str, user_id: str) -> Tokens:
        tokens = await self._realm.refresh(refresh_token)
        try:
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
    settings: KeycloakSettings, observe: Callable[[bool], None], checked: Callable[[str], None] = lambda outcome: None
) -> AsyncIterator[KeycloakAuthenticator]:
    """An authenticator that keeps its keys fresh while the context is open.

    `observe` is called after each fetch with whether it succeeded. The context opens even if Keycloak can't be reached;
    the authenticator is ready once it can. `checked` is called after each check of an access token with its outcome:
    `accepted`, the reason of Unauthenticated, or the code of another error.
    """
    realm = await asyncio.to_thread(KeycloakRealm, settings)
    keys = JwksCache(realm.keys, observe)
    try:
        await keys.open()
        yield KeycloakAuthenticator(AccessTokenVerifier(settings), keys, realm, checked)
    finally:
        # The keys first, since their refresh uses the realm's connections.
        await keys.aclose()
        await realm.aclose()
