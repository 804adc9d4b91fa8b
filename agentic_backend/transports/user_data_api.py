"""The calls for all of a user's data: their export and their deletion, by the person themself or by an admin."""

from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from agentic_backend.auth.user import User
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.rest_calls import RestCalls

_HEADERS = {"cache-control": "no-store", "content-disposition": 'attachment; filename="export.jsonl"'}


class UserDataApi:
    def __init__(self, calls: RestCalls, services: DoorServices) -> None:
        self._calls = calls
        self._export = services.user_export
        self._deletions = services.user_deletions

    def routes(self) -> list[Route]:
        calls = [
            ("GET", "/me/export", self._export_own),
            ("DELETE", "/me", self._delete_own),
            ("GET", "/admin/users/{id}/export", self._export_theirs),
            ("DELETE", "/admin/users/{id}", self._delete_theirs),
        ]
        return self._calls.routes("/agentic/v1", calls)

    async def _export_own(self, request: Request, user: User) -> Response:
        return await _streamed(self._export.lines(user.id, for_admin=False))

    async def _delete_own(self, request: Request, user: User) -> Response:
        await self._deletions.delete(user.id)
        return Response(status_code=204)

    async def _export_theirs(self, request: Request, user: User) -> Response:
        return await _streamed(self._export.lines(request.path_params["id"], for_admin=True))

    async def _delete_theirs(self, request: Request, user: User) -> Response:
        await self._deletions.delete(request.path_params["id"])
        return Response(status_code=204)


async def _streamed(lines: AsyncIterator[bytes]) -> Response:
    """The lines as they are read. An error before the second one is raised here, before anything is sent."""
    first, second = await anext(lines), await anext(lines)

    async def body() -> AsyncIterator[bytes]:
        yield first + second
        async for line in lines:
            yield line

    return StreamingResponse(body(), headers=_HEADERS, media_type="application/x-ndjson")
