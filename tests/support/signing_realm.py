"""A realm for tests: real RSA keys, served over HTTP as Keycloak does, and any kind of token signed with them.

Keycloak itself does not sign invalid tokens.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import Any
from urllib.parse import parse_qsl

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import RSAAlgorithm
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agentic_backend.config.settings import KeycloakSettings
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.server.process import Listener, address_of, bind

CLIENT = "agentic-chat"
_NAME = "tests"
# A client keeps its connections open for longer than a test.
_CLOSE = {"connection": "close"}


SHORT = "short"
"""The name of a key that is too short to be accepted."""


@cache
def rsa_key(name: str) -> RSAPrivateKey:
    """The key with this name; cached, because generating one takes a while."""
    return generate_private_key(public_exponent=65537, key_size=1024 if name == SHORT else 2048)


def public_jwk(key_id: str, **members: Any) -> dict[str, Any]:
    jwk: dict[str, Any] = RSAAlgorithm.to_jwk(rsa_key(key_id).public_key(), as_dict=True)
    return {**jwk, "kid": key_id, "use": "sig", "alg": "RS256", **members}


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class SigningRealm:
    """`requests` counts requests by the last part of the path. `answer`, if set, replaces the realm's answers."""

    def __init__(self) -> None:
        self.url = ""
        self.issuer = ""
        self.jwks: Any = {"keys": [public_jwk("first")]}
        self.requests: Counter[str] = Counter()
        self.answer: Callable[[], Awaitable[Response]] | None = None
        self.token_answer: dict[str, Any] = {"error": "invalid_grant"}
        self.token_forms: list[dict[str, str]] = []

    @property
    def settings(self) -> KeycloakSettings:
        return KeycloakSettings(realm_url=self.url)

    def claims(self, **changes: Any) -> dict[str, Any]:
        """The claims of an access token of Alice; a change to None removes a claim."""
        now = int(time.time())
        claims = {
            "exp": now + 300,
            "iat": now,
            "iss": self.url,
            "aud": ["account"],
            "sub": "alice-id",
            "typ": "Bearer",
            "azp": CLIENT,
            "preferred_username": "alice",
            "realm_access": {"roles": ["analyst"]},
            "resource_access": {CLIENT: {"roles": ["writer"]}, "account": {"roles": ["manage-account"]}},
        }
        return {name: value for name, value in (claims | changes).items() if value is not None}

    def sign(self, key_id: str = "first", *, algorithm: str = "RS256", named: str | None = None, **changes: Any) -> str:
        """A token signed with the key `key_id`; its header names the key `named`, by default `key_id`."""
        headers = {"kid": named or key_id}
        return jwt.encode(self.claims(**changes), rsa_key(key_id), algorithm, headers=headers)

    def sign_with_public_key(self) -> str:
        """A token of the algorithm confusion attack: HS256 with the public key's text as the key."""
        pem = rsa_key("first").public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        header, claims = json.dumps({"alg": "HS256", "kid": "first"}), json.dumps(self.claims())
        signed = f"{b64(header.encode())}.{b64(claims.encode())}"
        return f"{signed}.{b64(hmac.digest(pem, signed.encode(), hashlib.sha256))}"

    async def serve(self, request: Request) -> Response:
        self.requests[request.url.path.rpartition("/")[2]] += 1
        if self.answer is not None:
            return await self.answer()
        if request.url.path.endswith("/openid-configuration"):
            return JSONResponse({"issuer": self.issuer}, headers=_CLOSE)
        if request.url.path.endswith("/certs"):
            return JSONResponse(self.jwks, headers=_CLOSE)
        self.token_forms.append(dict(parse_qsl((await request.body()).decode(), keep_blank_values=True)))
        return JSONResponse(self.token_answer, 400 if "error" in self.token_answer else 200, headers=_CLOSE)


@asynccontextmanager
async def signing_realm() -> AsyncIterator[SigningRealm]:
    """A realm that listens on a free port."""
    realm = SigningRealm()
    application = Starlette(routes=[Route("/realms/{path:path}", realm.serve, methods=["GET", "POST"])])
    with bind("127.0.0.1", 0) as bound:
        realm.url = realm.issuer = f"{address_of(bound)}/realms/{_NAME}"
        listener = Listener(application, bound, LimitsSettings())
        listening = asyncio.create_task(listener.listen())
        try:
            yield realm
        finally:
            listener.close()
            await asyncio.wait({listening})
