"""The OpenAPI 3.1 document of the REST calls, made of the operations themselves."""

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

from pydantic.json_schema import JsonSchemaMode, JsonSchemaValue

from agentic_backend.transports.contract.schemas import COMPONENTS, schemas_of
from agentic_backend.transports.operation import ErrorForm, Operation

Json = dict[str, Any]


def openapi(operations: Sequence[Operation]) -> Json:
    """The document. It depends on no setting: every server of this version has these calls."""
    schemas, components = schemas_of(_types(operations))
    described = _Described(schemas, components)
    paths: dict[str, Json] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = described.operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Agentic Backend", "version": version("agentic-backend")},
        "paths": paths,
        "components": {"schemas": described.components},
    }


def _types(operations: Iterable[Operation]) -> Iterable[tuple[str, JsonSchemaMode, Any]]:
    """The types that the document describes, with keys that tell where each one belongs."""
    forms: set[type[ErrorForm]] = set()
    for operation in operations:
        if operation.query is not None:
            yield f"{operation.id} query", "validation", operation.query
        if operation.body is not None:
            yield f"{operation.id} body", "validation", operation.body
        if (answer := operation.answer_type) is not None:
            yield f"{operation.id} answer", "serialization", answer
        forms.add(operation.error_form)
    for form in forms:
        yield form.__name__, "serialization", form


class _Described:
    """Describes operations, and collects the components that they share."""

    def __init__(self, schemas: dict[str, JsonSchemaValue], components: dict[str, JsonSchemaValue]) -> None:
        self._schemas = schemas
        self.components = components

    def operation(self, operation: Operation) -> Json:
        described: Json = {
            "operationId": operation.id,
            "description": operation.description,
            "parameters": [*self._path(operation), *self._query(operation)],
        }
        if operation.body is not None:
            schema = self._schemas[f"{operation.id} body"]
            described["requestBody"] = {
                "content": {"application/json": {"schema": schema}},
                "required": bool(self._resolved(schema).get("required")),
            }
        described["responses"] = {str(operation.success): self._answer(operation)}
        return described

    def _path(self, operation: Operation) -> list[Json]:
        return [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in operation.path_parameters
        ]

    def _query(self, operation: Operation) -> list[Json]:
        if operation.query is None:
            return []
        model = self._resolved(self._schemas[f"{operation.id} query"])
        return [
            {"name": name, "in": "query", "required": name in model.get("required", ()), "schema": schema}
            for name, schema in model["properties"].items()
        ]

    def _answer(self, operation: Operation) -> Json:
        answer: Json = {"description": HTTPStatus(operation.success).phrase}
        if operation.answer_type is not None:
            media_type = "application/json" if operation.answer is None else operation.answer.media_type
            answer["content"] = {media_type: {"schema": self._schemas[f"{operation.id} answer"]}}
        return answer

    def _resolved(self, schema: JsonSchemaValue) -> JsonSchemaValue:
        reference: str = schema.get("$ref", "")
        return self.components[reference.removeprefix(COMPONENTS.format(model=""))] if reference else schema
