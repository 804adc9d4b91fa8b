"""Verifies an access token, and returns its user. Stateless: the caller gives the key.

A token is a JWT (RFC 7519) that Keycloak signed with a key of the realm, by one of the algorithms in the settings, all
asymmetric. It is an access token (`typ` is Bearer) of the realm (`iss`) for the server: `azp`, if present, is the
client of the settings, and `aud` contains the audience of the settings; if they name none, `aud` or `azp` must be the
client.
"""

import re
from base64 import urlsafe_b64decode
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import jwt
import orjson
from jwt.exceptions import InvalidSubjectError
from pydantic import BaseModel, Field, ValidationError

from agentic_backend.auth.user import User
from agentic_backend.config.settings import KeycloakSettings
from agentic_backend.errors import Forbidden, TokenExpired, TokenRefusal, Unauthenticated
from agentic_backend.protocol.frames import LONGEST_TOKEN

_COMPACT_JWT = re.compile(r"[\w-]+\.[\w-]+\.[\w-]+", re.ASCII)


_REASONS: dict[type[jwt.PyJWTError], TokenRefusal] = {
    jwt.InvalidAlgorithmError: "algorithm",
    jwt.InvalidSignatureError: "signature",
    jwt.InvalidIssuerError: "issuer",
    jwt.ImmatureSignatureError: "not_yet_valid",
    jwt.InvalidKeyError: "key",
    jwt.MissingRequiredClaimError: "claims",
    jwt.InvalidIssuedAtError: "claims",
    InvalidSubjectError: "claims",
}


# Reads a user's groups and scope from a verified token's claims. Pure; a claim of another form counts as absent.

_LONGEST_ID, _LONGEST_EMAIL = 128, 320


def at_path(claims: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path, or of the claim with that whole name, such as a URL; None if there is none."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def email_in(claims: Mapping[str, Any]) -> str | None:
    email = claims.get("email")
    return email if isinstance(email, str) and 0 < len(email) <= _LONGEST_EMAIL else None


def texts_in(value: Any) -> frozenset[str]:
    """The texts of a claim that is a text or a list of texts; a whole number counts as its digits."""
    values = [str(one) if type(one) is int else one for one in (value if isinstance(value, list) else [value])]
    return frozenset(text for text in values if isinstance(text, str) and 0 < len(text) <= _LONGEST_ID)


def scopes_in(claims: Mapping[str, Any], paths: Mapping[str, str]) -> tuple[dict[str, str], dict[str, frozenset[str]]]:
    """The scope that the claims at `paths` name, and by kind those of which they name several."""
    named = {kind: texts_in(at_path(claims, path)) for kind, path in paths.items()}
    scope = {kind: next(iter(ids)) for kind, ids in named.items() if len(ids) == 1}
    return scope, {kind: ids for kind, ids in named.items() if len(ids) > 1}


class _Roles(BaseModel):
    roles: list[str] = []


class _Claims(BaseModel):
    """The claims of Keycloak's tokens that the server reads."""

    typ: Literal["Bearer"]
    sub: str = Field(min_length=1, max_length=255)
    exp: float
    aud: str | list[str] = []
    azp: str | None = None
    name: str | None = None
    preferred_username: str | None = None
    realm_access: _Roles = _Roles()
    resource_access: dict[str, _Roles] = {}


class AccessTokenVerifier:
    def __init__(self, settings: KeycloakSettings) -> None:
        self._settings = settings
        self._algorithms = list(settings.algorithms)
        """The algorithms that a token may be signed with."""
        self._required_roles = frozenset(settings.required_roles)
        """A user needs all of these."""

    def key_id(self, token: str) -> str:
        """The id of the key that `token` claims to be signed with. Raises Unauthenticated."""
        if len(token) > LONGEST_TOKEN or not _COMPACT_JWT.fullmatch(token):
            raise Unauthenticated(reason="malformed")
        try:
            # The header only: PyJWT's get_unverified_header decodes the whole token, as `user_of` does later.
            header = orjson.loads(urlsafe_b64decode(token.partition(".")[0] + "=="))
        except ValueError:
            raise Unauthenticated(reason="malformed") from None
        key_id = header.get("kid") if isinstance(header, dict) else None
        if not isinstance(key_id, str):
            raise Unauthenticated(reason="malformed")
        return key_id

    def user_of(self, token: str, key: jwt.PyJWK) -> User:
        """The user of `token`. Raises Unauthenticated, TokenExpired, or Forbidden if a required role is missing."""
        payload, claims = self._claims(token, key)
        self._check_is_for_us(claims)
        roles = frozenset(self._roles(claims))
        if not self._required_roles <= roles:
            raise Forbidden("You lack a role that this server asks for.")
        scope, choices = scopes_in(payload, self._settings.scopes)
        return User(
            id=claims.sub,
            name=claims.preferred_username or claims.name or claims.sub,
            roles=roles,
            is_admin=self._settings.admin_role in roles,
            expires_at=claims.exp,
            email=email_in(payload),
            groups=texts_in(at_path(payload, self._settings.groups_claim)),
            scope=scope,
            scope_choices=choices,
        )

    def _claims(self, token: str, key: jwt.PyJWK) -> tuple[dict[str, Any], _Claims]:
        try:
            payload = jwt.decode(
                token,
                key,
                algorithms=self._algorithms,
                issuer=self._settings.realm_url,
                leeway=self._settings.leeway_s,
                # `_check_is_for_us` checks the audience, together with `azp`.
                options={"require": ["exp", "iat", "sub"], "verify_aud": False, "enforce_minimum_key_length": True},
            )
            return payload, _Claims.model_validate(payload)
        except jwt.ExpiredSignatureError:
            raise TokenExpired from None
        except jwt.PyJWTError as error:
            raise Unauthenticated(reason=_REASONS.get(type(error), "malformed")) from None
        except ValidationError as error:
            is_other_kind = any(problem["loc"] == ("typ",) for problem in error.errors())
            raise Unauthenticated(reason="not_an_access_token" if is_other_kind else "claims") from None

    def _check_is_for_us(self, claims: _Claims) -> None:
        client, audience = self._settings.client_id, self._settings.audience
        audiences = [claims.aud] if isinstance(claims.aud, str) else claims.aud
        if claims.azp not in (None, client):
            raise Unauthenticated(reason="azp")
        if not (audience in audiences if audience is not None else client in (claims.azp, *audiences)):
            raise Unauthenticated(reason="audience")

    def _roles(self, claims: _Claims) -> Iterator[str]:
        yield from claims.realm_access.roles
        for client in {self._settings.client_id, self._settings.audience}:
            yield from claims.resource_access.get(client or "", _Roles()).roles
