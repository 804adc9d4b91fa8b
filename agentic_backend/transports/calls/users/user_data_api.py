"""The calls for all of a user's data: their export and their deletion, by the person themself or by an admin."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from pydantic import Field
from starlette.responses import Response, StreamingResponse

from agentic_backend.auth.user import User
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.rest.operation import PREFIX, Operation, Streamed

_HEADERS = {"cache-control": "no-store", "content-disposition": 'attachment; filename="export.jsonl"'}
_LINE = Field(
    description="The first line has `version`, `user_id` and `at`, the last how many `rows` there were, without which "
    "it is not all; each between has a `row` of a `table`.",
    examples=[{"table": "sessions", "row": {"id": "5b1f0c", "user_id": "ada", "title": "Weather in Bern"}}],
)
_LINES = Streamed("application/x-ndjson", Annotated[dict[str, Any], _LINE])


class UserDataApi:
    def __init__(self, services: DoorServices) -> None:
        self._export = services.sessions.user_export
        self._deletions = services.sessions.user_deletions

    def operations(self) -> list[Operation]:
        theirs = f"{PREFIX}/admin/users/{{id}}"
        return [
            Operation("GET", f"{PREFIX}/me/export", self.export_own_data, answer=_LINES),
            Operation("DELETE", f"{PREFIX}/me", self.delete_own_data),
            Operation("GET", f"{theirs}/export", self.export_data_of_user, answer=_LINES),
            Operation("DELETE", theirs, self.delete_data_of_user),
        ]

    async def export_own_data(self, user: User) -> Response:
        """All of the caller's data, as lines of JSON."""
        return await _streamed(self._export.lines(user.id, for_admin=False))

    async def delete_own_data(self, user: User) -> None:
        """Delete all of the caller's data."""
        await self._deletions.delete(user.id)

    async def export_data_of_user(self, id: str) -> Response:
        """All of a user's data, as lines of JSON."""
        return await _streamed(self._export.lines(id, for_admin=True))

    async def delete_data_of_user(self, id: str) -> None:
        """Delete all of a user's data."""
        await self._deletions.delete(id)


async def _streamed(lines: AsyncIterator[bytes]) -> Response:
    """The lines as they are read. An error before the second one is raised here, before anything is sent."""
    first, second = await anext(lines), await anext(lines)

    async def body() -> AsyncIterator[bytes]:
        yield first + second
        async for line in lines:
            yield line

    return StreamingResponse(body(), headers=_HEADERS, media_type="application/x-ndjson")
