"""Where a client's token stands in a request, whose it is, and how long it serves."""

import time

from starlette.requests import HTTPConnection

from agentic_backend.auth.user import Authenticator, User
from agentic_backend.errors import Unauthenticated

_LONGEST_TOKEN = 16_384
_EXPIRY_LEEWAY_S = 10


def token_of(connection: HTTPConnection, *, in_query: bool = False) -> str | None:
    """The token in `Authorization: Bearer …` or, `in_query`, in `?token=…`.

    Raises Unauthenticated where the header has another form.
    """
    header = connection.headers.get("authorization")
    token: str | None = None
    if header is not None:
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Unauthenticated
        token = token.strip()
    elif in_query:
        token = connection.query_params.get("token")
    if token is not None and len(token) > _LONGEST_TOKEN:
        raise Unauthenticated
    return token


def seconds_left(user: User) -> float | None:
    """How long what is open for `user` may stay so; None where the token does not end."""
    return None if user.expires_at is None else max(0.0, user.expires_at + _EXPIRY_LEEWAY_S - time.time())


async def user_of(connection: HTTPConnection, authenticator: Authenticator) -> User:
    """Who sends a request. Raises Unauthenticated or TokenExpired."""
    token = token_of(connection)
    if token is not None:
        return await authenticator.authenticate(token)
    if authenticator.anonymous is None:
        raise Unauthenticated
    return authenticator.anonymous
