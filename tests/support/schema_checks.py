"""Validators of what a server sends, by the published documents."""

from typing import Any, Literal

from jsonschema import Draft7Validator, Draft202012Validator
from jsonschema.protocols import Validator
from referencing import Registry

from agentic_backend.transports.contract.asyncapi import asyncapi
from agentic_backend.transports.contract.door_schemas import door_schema_files
from agentic_backend.transports.contract.protocol_schemas import schema_files

SCHEMAS = schema_files() | door_schema_files()
"""Every schema, by its path below docs/schemas."""


def validator(name: str, *, closed: bool = False) -> Validator:
    """Checks JSON against the schema at this path, without `.json`; `closed` also refuses fields that no schema has."""
    schemas = _closed(SCHEMAS) if closed else SCHEMAS
    registry: Registry[Any] = Registry().with_contents((schema["$id"], schema) for schema in schemas.values())
    return Draft202012Validator({"$ref": SCHEMAS[f"{name}.json"]["$id"]}, registry=registry)


def on_channel(channel: str, action: Literal["send", "receive"]) -> Validator:
    """Checks JSON against all that the server sends or receives on a channel of the AsyncAPI document.

    It refuses other fields.
    """
    document = asyncapi()
    components, messages = document["components"], document["channels"][channel]["messages"]
    here = {"$ref": f"#/channels/{channel}"}
    payloads = [
        components["messages"][_last(messages[_last(message)])]["payload"]
        for operation in document["operations"].values()
        if operation["action"] == action and operation["channel"] == here
        for message in operation["messages"]
    ]
    return Draft7Validator({"anyOf": payloads, "components": {"schemas": _closed(components["schemas"])}})


def _last(reference: dict[str, str]) -> str:
    """The name that a reference ends with."""
    return reference["$ref"].rpartition("/")[2]


def problems(checks: Validator, value: Any) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in checks.iter_errors(value)]


def _closed(schemas: Any) -> Any:
    """The schemas, with only the properties that they name, also those within them."""
    if isinstance(schemas, list):
        return [_closed(each) for each in schemas]
    if not isinstance(schemas, dict):
        return schemas
    closed = {name: _closed(each) for name, each in schemas.items()}
    is_object = closed.get("type") == "object" and "properties" in closed
    return {"additionalProperties": False} | closed if is_object else closed
