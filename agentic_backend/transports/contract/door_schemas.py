"""The JSON Schemas of the events of other doors, with descriptions and examples. They allow unknown fields too."""

from typing import Any

from pydantic.json_schema import JsonSchemaMode, JsonSchemaValue

from agentic_backend.transports.chat_runs.events import RunEvent
from agentic_backend.transports.contract.json_schemas import COMPONENTS, schemas_of
from agentic_backend.transports.contract.protocol_schemas import document
from agentic_backend.transports.contract.schema_examples import SchemaExamples
from agentic_backend.transports.session_stream.events import StreamEvent

_UNIONS: dict[str, tuple[str, Any, str]] = {
    "session_stream": ("StreamEvent", StreamEvent, "Every event of the session stream."),
    "chat_runs": ("RunEvent", RunEvent, "Every event of a chat run."),
}
"""By the name of the door: the name, the type and the description of the union of its events."""


def door_schema_files() -> dict[str, JsonSchemaValue]:
    """Each schema as a document of its own, by its path: a folder for each door."""
    return {
        f"{door}/{name}.json": document(f"{door}/", name, schema)
        for door, union in _UNIONS.items()
        for name, schema in _schemas(*union).items()
    }


def _schemas(name: str, union: Any, description: str) -> dict[str, JsonSchemaValue]:
    types: list[tuple[str, JsonSchemaMode, Any]] = [(name, "serialization", union)]
    _, components = schemas_of(types, COMPONENTS)
    examples = SchemaExamples(components)
    by_key, models = schemas_of(types, "{model}.json")
    described = {
        each: schema | {"examples": [examples.of({"$ref": COMPONENTS.format(model=each)})]}
        for each, schema in models.items()
    }
    return described | {name: {"description": description} | by_key[name]}
