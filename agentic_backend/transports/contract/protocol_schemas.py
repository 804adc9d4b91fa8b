"""The JSON Schemas of Chat Protocol v2: every frame, event, part, and value in them, with descriptions and examples.

Frames are described as the server reads them: it refuses unknown fields. Events, and all that they hold, are described
as clients read them: they ignore unknown fields, so the schemas allow any.
"""

from typing import Any

from pydantic.json_schema import JsonSchemaMode, JsonSchemaValue

from agentic_backend.protocol.events import ServerEvent
from agentic_backend.protocol.frames import ClientFrame
from agentic_backend.protocol.parts import Part
from agentic_backend.protocol.trust import TrustSummary
from agentic_backend.transports.contract.examples import examples
from agentic_backend.transports.contract.json_schemas import schemas_of

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
BASE = "https://agentic-backend.example/"
"""What the schemas' ids begin with. Nothing is fetched from there."""
_FOLDER = "chat.v2/"

Types = tuple[tuple[str, JsonSchemaMode, Any], ...]

ON_SOCKET: Types = (("ClientFrame", "validation", ClientFrame), ("ServerEvent", "serialization", ServerEvent))
"""What a WebSocket carries."""
_ALL: Types = (*ON_SOCKET, ("Part", "serialization", Part), ("TrustSummary", "serialization", TrustSummary))
UNIONS = {
    "ClientFrame": "Every frame that a client may send. One without `type` is an ask.",
    "ServerEvent": "Every event that a client may receive. An `error` with `seq` tells of an exchange, one without "
    "refuses a frame. Later versions may have other events, which a client ignores.",
    "Part": "A piece of a message's content. Later versions may have other parts, which a client ignores.",
}


def protocol_schemas(types: Types, ref_template: str) -> dict[str, JsonSchemaValue]:
    """The schemas of `types` and of all within them, by name. `ref_template` is how one names another, with `{model}`
    for the name.
    """
    by_key, models = schemas_of(types, ref_template)
    unions = {name: {"description": UNIONS[name]} | union for name, union in by_key.items() if name in UNIONS}
    shown = examples()
    return {
        name: schema | ({"examples": shown[name]} if name in shown else {})
        for name, schema in sorted((models | unions).items())
    }


def schema_files() -> dict[str, JsonSchemaValue]:
    """Each schema as a document of its own, by its file's name; it names others by theirs."""
    return {
        f"{name}.json": document(_FOLDER, name, schema)
        for name, schema in protocol_schemas(_ALL, "{model}.json").items()
    }


def document(folder: str, name: str, schema: JsonSchemaValue) -> JsonSchemaValue:
    """A schema as a document of its own, beside the others of its folder."""
    return {"$schema": _DIALECT, "$id": f"{BASE}{folder}{name}.json", "title": name} | schema
