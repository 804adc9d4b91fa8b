"""Validators of the protocol's published schemas."""

from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.protocols import Validator
from referencing import Registry

from agentic_backend.transports.contract.protocol_schemas import BASE, schema_files

SCHEMAS = schema_files()
"""Every schema, by its file's name."""


def validator(name: str, *, closed: bool = False) -> Validator:
    """Checks JSON against the schema of this name; `closed` also refuses fields that no schema has."""
    schemas = _closed(SCHEMAS) if closed else SCHEMAS
    registry: Registry[Any] = Registry().with_contents((schema["$id"], schema) for schema in schemas.values())
    return Draft202012Validator({"$ref": f"{BASE}{name}.json"}, registry=registry)


def problems(checks: Validator, value: Any) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in checks.iter_errors(value)]


def _closed(schemas: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {"additionalProperties": False} | schema if "properties" in schema else schema
        for name, schema in schemas.items()
    }
