"""AdminGate: lets only admins call paths below `/admin`, of any door, and records each call before it is answered.

RestCalls puts every route with such a path behind it, so that none can be forgotten.
"""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from agentic_backend.auth.user import User
from agentic_backend.errors import Forbidden
from agentic_backend.policy.admin_reads import AdminReads

# Of every door.
_PREFIXES = ("/agentic/v1/admin/", "/admin/")

Call = Callable[[Request, User], Awaitable[Response]]


def is_for_admins(path: str) -> bool:
    return path.startswith(_PREFIXES)


class AdminGate:
    def __init__(self, reads: AdminReads) -> None:
        self._reads = reads

    def guarded(self, call: Call) -> Call:
        """`call` for admins only. It raises Forbidden for others, and StoreUnavailable if it can't be recorded."""

        async def guarded(request: Request, user: User) -> Response:
            if not user.is_admin:
                raise Forbidden
            await self._reads.note(user.id, called(request), _subject(request))
            return await call(request, user)

        return guarded


def called(request: Request) -> str:
    """The method, the path and the query, for the record of a read."""
    query = request.url.query
    return f"{request.method} {request.url.path}{query and f'?{query}'}"


def _subject(request: Request) -> str | None:
    """The id in the path, else the user, the session or the exchange that the query names."""
    named = (request.query_params.get(name) for name in ("user_id", "session_id", "exchange_id"))
    return request.path_params.get("id") or next(filter(None, named), None)
