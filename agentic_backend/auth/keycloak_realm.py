"""KeycloakRealm: asks a Keycloak realm for its keys, for newer tokens and for tokens for other services.

Owned by the KeycloakAuthenticator. Every call has a timeout. No token and no answer of Keycloak reaches a log or the
text of an error; the log gets only OAuth's error code (RFC 6749, section 5.2).
"""

import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from jwt import PyJWK, PyJWKSet
from keycloak import KeycloakError, KeycloakOpenID, KeycloakPostError
from keycloak.exceptions import raise_error_from_response
from keycloak.urls_patterns import URL_TOKEN
from pydantic import BaseModel, Field

from agentic_backend.auth.jwks import KeysUnavailable
from agentic_backend.auth.user import Tokens
from agentic_backend.config.settings import KeycloakSettings
from agentic_backend.errors import AuthUnavailable, Unauthenticated
from agentic_backend.loop.loop_load import served_timeout
from agentic_backend.system_errors import Away, away_reason_of, summary_of, system_words_of

log = logging.getLogger(__name__)

# For each step of a request, and for the request as a whole.
_STEP_S, CALL_TIMEOUT_S = 3, 5
_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
_OAUTH_ERROR = re.compile(r"[a-z_]{1,64}")


class _TokenAnswer(BaseModel):
    access_token: str = Field(min_length=1, repr=False)
    refresh_token: str | None = Field(default=None, min_length=1, repr=False)
    expires_in: float | None = None


class KeycloakRealm:
    def __init__(
        self, settings: KeycloakSettings, observe: Callable[[str, Away | None], None] = lambda call, why: None
    ) -> None:
        """Blocks: its HTTP clients read certificates. `observe` is called after a `refresh` or `exchange` that shows
        whether the client is refused.
        """
        self._observe = observe
        self._issuer = settings.realm_url
        """The issuer that the realm must name."""
        self._is_issuer_checked = False
        """Whether its discovery document has named it; checked once."""
        # The clients for signing in and for exchanging tokens: the same, unless the settings name another.
        self._client = _client(settings, settings.client_id, settings.client_secret)
        self._exchange_client = self._client
        if settings.exchange_client_id is not None:
            self._exchange_client = _client(settings, settings.exchange_client_id, settings.exchange_client_secret)

    async def keys(self) -> Mapping[str, PyJWK]:
        """The realm's signing keys, by their ids. Raises KeysUnavailable."""
        try:
            async with served_timeout(CALL_TIMEOUT_S):
                if not self._is_issuer_checked:
                    self._check_issuer(await self._client.a_well_known())
                key_set = PyJWKSet.from_dict(await self._client.a_certs())
        except KeysUnavailable:
            raise
        except Exception as error:
            # Python-Keycloak and PyJWT take an answer for a realm's: one that is not may raise anything.
            raise KeysUnavailable(_reason(error), _why_away(error)) from error
        keys = {key.key_id: key for key in key_set.keys if key.key_id and key.public_key_use in (None, "sig")}
        if not keys:
            raise KeysUnavailable("the realm has no signing keys")
        return keys

    async def refresh(self, refresh_token: str) -> Tokens:
        """Newer tokens of the same user. Raises Unauthenticated, or AuthUnavailable if Keycloak can't be reached."""
        return await self._tokens("refresh", self._client.a_refresh_token(refresh_token))

    async def exchange(self, access_token: str, audience: str) -> Tokens:
        """A token for `audience` (RFC 8693). Raises as `refresh` does."""
        return await self._tokens("exchange", _exchange(self._exchange_client, access_token, audience))

    async def aclose(self) -> None:
        for client in {self._client, self._exchange_client}:
            await client.connection.aclose()

    def _check_issuer(self, discovered: Mapping[str, Any]) -> None:
        issuer = discovered.get("issuer")
        if issuer != self._issuer:
            raise KeysUnavailable(f"the realm calls itself {issuer!r}, auth.keycloak.realm_url says {self._issuer!r}")
        self._is_issuer_checked = True

    async def _tokens(self, name: str, call: Awaitable[object]) -> Tokens:
        try:
            async with served_timeout(CALL_TIMEOUT_S):
                answer = _TokenAnswer.model_validate(await call)
        except Exception as error:
            # As above.
            why, status = _why_away(error), getattr(error, "response_code", None) or 0
            log.warning("Keycloak gave no tokens", extra={"reason": why, "error": _reason(error)})
            # That it is away is known of the keys alone: for long nobody may renew a token, so nothing would end it.
            if why == "refused_credentials":
                self._observe(name, why)
            elif status == 400:
                # It looks at the client before the token.
                self._observe(name, None)
            if 400 <= status < 500:
                raise Unauthenticated("Keycloak did not accept the token; sign in again.") from error
            raise AuthUnavailable("Keycloak can't be reached at the moment; try again soon.") from error
        self._observe(name, None)
        expires_at = time.time() + answer.expires_in if answer.expires_in is not None else None
        return Tokens(answer.access_token, answer.refresh_token, expires_at)


def _client(settings: KeycloakSettings, client_id: str, secret: str | None) -> KeycloakOpenID:
    server, _, realm = (settings.internal_url or settings.realm_url or "").rpartition("/realms/")
    return KeycloakOpenID(
        server_url=f"{server}/", realm_name=realm, client_id=client_id, client_secret_key=secret, timeout=_STEP_S
    )


async def _exchange(client: KeycloakOpenID, access_token: str, audience: str) -> object:
    # Not `a_exchange_token`: it sends missing values as empty texts, which Keycloak refuses.
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "client_id": client.client_id,
        "subject_token": access_token,
        "subject_token_type": _ACCESS_TOKEN,
        "requested_token_type": _ACCESS_TOKEN,
        "audience": audience,
    }
    if client.client_secret_key is not None:
        form["client_secret"] = client.client_secret_key
    response = await client.connection.a_raw_post(URL_TOKEN.format(**{"realm-name": client.realm_name}), form)
    return raise_error_from_response(response, KeycloakPostError)


def _reason(error: Exception) -> str:
    """Why a call failed: our own words and the system's, and OAuth's error code."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if not isinstance(error, KeycloakError):
        return "the answer is not that of a realm"
    if error.response_code is None:
        return f"no connection: {summary_of(error)}" if system_words_of(error) else "no connection"
    return f"HTTP {error.response_code} {_oauth_error(error)}".rstrip()


def _why_away(error: Exception) -> Away:
    """Why Keycloak did not serve a call, in one word."""
    if not isinstance(error, KeycloakError) or error.response_code is None:
        return away_reason_of(error, "unreachable" if isinstance(error, KeycloakError) else "other")
    match error.response_code, _oauth_error(error):
        case (400 | 401, "invalid_client" | "unauthorized_client") | (401, ""):
            # The client's secret is wrong, or it may not ask so.
            return "refused_credentials"
        case 403, _:
            return "no_permission"
        case 404, _:
            return "not_found"
        case status, _ if status >= 500:
            return "server_error"
    return "other"


def _oauth_error(error: KeycloakError) -> str:
    try:
        code = json.loads(error.response_body or b"")["error"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""
    return code if isinstance(code, str) and _OAUTH_ERROR.fullmatch(code) else ""
