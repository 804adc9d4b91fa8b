"""Validators of what a server sends, by the published documents."""

from typing import Any

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


def sent_on(channel: str) -> Validator:
    """Checks JSON against all that the server sends on a channel of the AsyncAPI document, and refuses other fields."""
    document = asyncapi()
    components = document["components"]
    operations = document["operations"].values()
    here = {"$ref": f"#/channels/{channel}"}
    sent = [each["messages"][0] for each in operations if each["action"] == "send" and each["channel"] == here]
    messages = [document["channels"][channel]["messages"][each["$ref"].split("/")[-1]]["$ref"] for each in sent]
    payloads = [components["messages"][each.split("/")[-1]]["payload"] for each in messages]
    return Draft7Validator({"anyOf": payloads, "components": {"schemas": _closed(components["schemas"])}})


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
