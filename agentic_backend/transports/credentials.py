"""Where a client's token stands in a request, how long it serves, and calls that need one."""

import time
from collections.abc import Awaitable, Callable, Iterable

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Route

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


Call = Callable[[Request, User], Awaitable[Response]]


def authenticated_routes(
    authenticator: Authenticator, prefix: str, calls: Iterable[tuple[str, str, Call]]
) -> list[Route]:
    """Routes whose calls (method, path behind `prefix`, call) know who calls them."""
    return [Route(prefix + path, _authenticated(authenticator, call), methods=[method]) for method, path, call in calls]


def _authenticated(authenticator: Authenticator, call: Call) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        return await call(request, await user_of(request, authenticator))

    return endpoint


async def user_of(connection: HTTPConnection, authenticator: Authenticator) -> User:
    """Who sends a request. Raises Unauthenticated or TokenExpired."""
    token = token_of(connection)
    if token is not None:
        return await authenticator.authenticate(token)
    if authenticator.anonymous is None:
        raise Unauthenticated
    return authenticator.anonymous
