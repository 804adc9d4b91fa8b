"""The calls for the documents that machines read: what this server understands, and what it answers."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field
from starlette.responses import Response

from agentic_backend.transports.contract.documents import documents
from agentic_backend.transports.operation import Operation, Streamed

_HEADERS = {"cache-control": "public, max-age=300"}


class ContractApi:
    def __init__(self, others: Sequence[Operation]) -> None:
        """`others` are all operations but these."""
        self._others = others
        self._documents: dict[str, bytes] | None = None
        """Made when they are asked for first."""

    def operations(self) -> list[Operation]:
        answer = Streamed("application/json", Annotated[dict[str, Any], Field(description="An OpenAPI 3.1 document.")])
        return [Operation("GET", "/openapi.json", self.get_openapi, answer=answer, public=True)]

    async def get_openapi(self) -> Response:
        """The OpenAPI 3.1 document of all REST calls: this document."""
        return await self._document("openapi.json")

    async def _document(self, path: str) -> Response:
        if self._documents is None:
            # In a thread, because it takes a good part of a second.
            self._documents = await asyncio.to_thread(documents, [*self._others, *self.operations()])
        return Response(self._documents[path], headers=_HEADERS, media_type="application/json")
