"""The published documents of the contract, by their paths below docs/, where a test keeps them current."""

from collections.abc import Sequence
from typing import Any

import orjson

from agentic_backend.transports.contract.asyncapi import asyncapi
from agentic_backend.transports.contract.door_schemas import door_schema_files
from agentic_backend.transports.contract.openapi import openapi
from agentic_backend.transports.contract.protocol_schemas import schema_files
from agentic_backend.transports.operation import Operation


def documents(operations: Sequence[Operation]) -> dict[str, bytes]:
    """Each document as JSON, by its path."""
    made = {
        "openapi.json": openapi(operations),
        "asyncapi.json": asyncapi(),
        **{f"schemas/{path}": schema for path, schema in (schema_files() | door_schema_files()).items()},
    }
    return {path: _encoded(document) for path, document in made.items()}


def _encoded(document: dict[str, Any]) -> bytes:
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
