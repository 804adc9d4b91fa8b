"""The access token of a request: where to find it, its user, and how long it is valid."""

import time

from starlette.requests import HTTPConnection

from agentic_backend.auth.user import Authenticator, Tokens, User
from agentic_backend.errors import Unauthenticated
from agentic_backend.protocol.frames import LONGEST_TOKEN

EXPIRY_LEEWAY_S = 10


def token_of(connection: HTTPConnection, *, in_query: bool = False) -> str | None:
    """The token in `Authorization: Bearer …` or, `in_query`, in `?token=…`.

    Raises Unauthenticated if the header has another form or the token is too long.
    """
    header = connection.headers.get("authorization")
    token: str | None = None
    if header is not None:
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Unauthenticated(reason="malformed")
        token = token.strip()
    elif in_query:
        token = connection.query_params.get("token")
    if token is not None and len(token) > LONGEST_TOKEN:
        raise Unauthenticated(reason="malformed")
    return token


def tokens_of(request: HTTPConnection, user: User) -> Tokens | None:
    """The tokens in a request's header, which `user` has authenticated with. Raises Unauthenticated, as `token_of`."""
    token = token_of(request)
    return Tokens(token, expires_at=user.expires_at) if token is not None else None


def seconds_left(user: User) -> float | None:
    """The seconds until the user's connections must end; None if the token does not expire."""
    return None if user.expires_at is None else max(0.0, user.expires_at + EXPIRY_LEEWAY_S - time.time())


async def user_of(connection: HTTPConnection, authenticator: Authenticator) -> User:
    """The user of a request. Raises Unauthenticated or TokenExpired."""
    token = token_of(connection)
    if token is not None:
        return await authenticator.authenticate(token)
    if authenticator.anonymous is None:
        raise Unauthenticated(reason="missing")
    return authenticator.anonymous
