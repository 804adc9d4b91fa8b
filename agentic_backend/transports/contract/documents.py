"""The published documents of the contract, by their paths below docs/, where a test keeps them current."""

from collections.abc import Sequence
from typing import Any

import orjson

from agentic_backend.transports.contract.asyncapi import asyncapi
from agentic_backend.transports.contract.door_schemas import door_schema_files
from agentic_backend.transports.contract.openapi import openapi
from agentic_backend.transports.contract.protocol_schemas import schema_files
from agentic_backend.transports.rest.operation import Operation


def documents(operations: Sequence[Operation]) -> dict[str, bytes]:
    """Each document as JSON, by its path."""
    schemas = schema_files() | door_schema_files()
    return served_documents(operations) | {f"schemas/{path}": _encoded(schema) for path, schema in schemas.items()}


def served_documents(operations: Sequence[Operation]) -> dict[str, bytes]:
    """The documents that a server has calls for."""
    return {"openapi.json": _encoded(openapi(operations)), "asyncapi.json": _encoded(asyncapi())}


def _encoded(document: dict[str, Any]) -> bytes:
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
