"""The calls for the documents that machines read: what this server understands, and what it answers."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

import orjson
from pydantic import Field
from starlette.responses import Response

from agentic_backend.transports.contract.asyncapi import asyncapi
from agentic_backend.transports.contract.door_schemas import door_schema_files
from agentic_backend.transports.contract.openapi import openapi
from agentic_backend.transports.contract.protocol_schemas import schema_files
from agentic_backend.transports.rest.operation import Operation, Streamed

_HEADERS = {"cache-control": "public, max-age=300"}


# They are published below docs/, where a test keeps them current.


def documents(operations: Sequence[Operation]) -> dict[str, bytes]:
    """Each document as JSON, by its path."""
    schemas = schema_files() | door_schema_files()
    return served_documents(operations) | {f"schemas/{path}": _encoded(schema) for path, schema in schemas.items()}


def served_documents(operations: Sequence[Operation]) -> dict[str, bytes]:
    """The documents that a server has calls for."""
    return {"openapi.json": _encoded(openapi(operations)), "asyncapi.json": _encoded(asyncapi())}


def _encoded(document: dict[str, Any]) -> bytes:
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


class ContractApi:
    def __init__(self, others: Sequence[Operation]) -> None:
        """`others` are all operations but these."""
        self._others = others
        self._documents: dict[str, bytes] | None = None
        """Made when they are asked for first."""
        self._making = asyncio.Lock()

    def operations(self) -> list[Operation]:
        return [
            Operation(
                "GET",
                "/openapi.json",
                self.get_openapi,
                answer=document_answer("An OpenAPI 3.1 document."),
                public=True,
            ),
            Operation(
                "GET",
                "/asyncapi.json",
                self.get_asyncapi,
                answer=document_answer("An AsyncAPI 3.0 document."),
                public=True,
            ),
        ]

    async def get_openapi(self) -> Response:
        """The OpenAPI 3.1 document of all REST calls: this document."""
        return await self._document("openapi.json")

    async def get_asyncapi(self) -> Response:
        """The AsyncAPI 3.0 document of the WebSocket: its frames, events and close codes."""
        return await self._document("asyncapi.json")

    async def _document(self, path: str) -> Response:
        # Once, however many ask meanwhile, for anybody may.
        async with self._making:
            if self._documents is None:
                # In a thread, because it takes a good part of a second.
                self._documents = await asyncio.to_thread(served_documents, [*self._others, *self.operations()])
        return document_response(self._documents[path])


def document_response(document: bytes) -> Response:
    return Response(document, headers=_HEADERS, media_type="application/json")


def document_answer(description: str) -> Streamed:
    return Streamed("application/json", Annotated[dict[str, Any], Field(description=description)])
