"""The OpenAPI 3.1 document of the REST calls, made of the operations themselves."""

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from itertools import groupby
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, JsonSchemaValue

from agentic_backend.errors import AgenticError
from agentic_backend.protocol.events import ErrorInfo
from agentic_backend.transports.contract.doors import DOORS, Door, door_of
from agentic_backend.transports.contract.json_schemas import schemas_of
from agentic_backend.transports.contract.schema_examples import SchemaExamples
from agentic_backend.transports.rest.operation import BINARY, ErrorBody, ErrorForm, Operation

Json = dict[str, Any]

_DESCRIPTION = """\
REST calls, and server-sent events, of a chat server for LangGraph agents.

- A client sends its access token as `Authorization: Bearer …`. `GET /agentic/v1/sign-in` tells where to get one; a
  server in developer mode needs none.
- What belongs to somebody else is not found, as if it did not exist.
- In a body, `null` means the same as an absent key, wherever a key may be absent. Unknown keys are refused.
- In an answer, what has no value is absent, but null in the records of audits. Clients ignore keys that
  they do not know.
- Unknown parameters of a query string are ignored.

The WebSocket is in the AsyncAPI document, `/asyncapi.json`."""
_SEQUENCES = {
    "text/event-stream": "Server-sent events. The schema is that of one event.",
    "application/yaml": "YAML. The schema is that of its value.",
    "application/x-ndjson": "Lines of JSON. The schema is that of one line.",
}
_BYTES = {"type": "string", "format": "binary", "minLength": 1}
_CONTENT = {"schema": _BYTES, "example": "Water freezes at 0 °C."}
# Those of other examples, by what they name; of a session where there is none.
_SESSION_ID = "5b1f0c"
_IDS = {"attachment": "a_1", "exchange": "9d27aa", "user": "ada", "message": "1", "share": "9f86d081884c7d65"}


_REQUEST_ID = "9b2c4d6e8f0a4b1c8d3e5f7a9b0c2d4e"
_AUTHENTICATE = {"www-authenticate": {"description": "`Bearer`.", "schema": {"type": "string"}}}
_RETRY = {"retry-after": {"description": "Seconds to wait, where it is known.", "schema": {"type": "integer"}}}
_HEADERS: dict[int, dict[str, Any]] = {401: _AUTHENTICATE, 429: _RETRY, 503: _RETRY}


class ErrorResponses:
    """The error responses of an OpenAPI document: one for each status of an operation; equal ones are one."""

    def __init__(self, schemas: dict[str, Any]) -> None:
        """`schemas` are those of the forms of errors, by the form's name."""
        self._schemas = schemas
        self.components: dict[str, Any] = {}

    def of(self, operation: Operation) -> dict[str, Any]:
        """References to the error responses of an operation, by status."""
        errors = sorted(operation.possible_errors, key=lambda error: (error.http_status, error.code))
        grouped = groupby(errors, key=lambda error: error.http_status)
        return {str(status): self._reference(status, list(group), operation.error_form) for status, group in grouped}

    def _reference(self, status: int, errors: list[type[AgenticError]], form: type[ErrorForm]) -> dict[str, str]:
        codes = [error.code for error in errors]
        name = ".".join([str(status), *codes] if form is ErrorBody else [form.__name__, str(status), *codes])
        self.components.setdefault(name, self._response(status, errors, form))
        return {"$ref": f"#/components/responses/{name}"}

    def _response(self, status: int, errors: list[type[AgenticError]], form: type[ErrorForm]) -> dict[str, Any]:
        example = form.of(ErrorInfo.of(errors[0](), _REQUEST_ID)).model_dump(mode="json")
        response: dict[str, Any] = {
            "description": "\n".join(f"- `{error.code}`: {error.default}" for error in errors),
            "content": {"application/json": {"schema": self._schemas[form.__name__], "example": example}},
        }
        if status in _HEADERS:
            response["headers"] = _HEADERS[status]
        return response


def openapi(operations: Sequence[Operation]) -> Json:
    """The document of the server's own calls. It depends on no setting: every server of this version has them."""
    info = {"title": "Agentic Backend", "version": version("agentic-backend"), "description": _DESCRIPTION}
    return document_of(operations, info, DOORS)


def document_of(
    operations: Sequence[Operation],
    info: Mapping[str, str],
    doors: Sequence[Door],
    parts: Mapping[str, type[BaseModel]] = MappingProxyType({}),
) -> Json:
    """The document of `operations`, which are all behind one of the `doors`.

    `parts` are the models of custom parts by kind; `x-parts` has their schemas, where there are some.
    """
    of_parts: list[tuple[str, JsonSchemaMode, Any]] = [(f"{kind} part", "serialization", parts[kind]) for kind in parts]
    schemas, components = schemas_of([*_types(operations), *of_parts])
    described = _Described(schemas, components, doors)
    paths: dict[str, Json] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = described.operation(operation)
    used = {door_of(operation.path, doors).name for operation in operations}
    shown = {kind: schemas[f"{kind} part"] for kind in parts}
    return {
        "openapi": "3.1.0",
        "info": dict(info),
        "servers": [{"url": "/", "description": "The server that serves this document."}],
        "tags": [{"name": door.name, "description": door.description} for door in doors if door.name in used],
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer", "description": "An access token."}},
            "responses": dict(sorted(described.errors.components.items())),
            "schemas": dict(sorted(components.items())),
        },
        **({"x-parts": shown} if shown else {}),
    }


def _types(operations: Iterable[Operation]) -> Iterable[tuple[str, JsonSchemaMode, Any]]:
    """The types that the document describes, with keys that tell where each one belongs."""
    forms: dict[str, type[ErrorForm]] = {}
    for operation in operations:
        if operation.query is not None:
            yield f"{operation.id} query", "validation", operation.query
        if operation.body is not None:
            yield f"{operation.id} body", "validation", operation.body
        if operation.answer_type is not None:
            yield f"{operation.id} answer", "serialization", operation.answer_type
        if operation.answer is not None and operation.answer.or_events is not None:
            yield f"{operation.id} events", "serialization", operation.answer.or_events
        forms[operation.error_form.__name__] = operation.error_form
    for name, form in forms.items():
        yield name, "serialization", form


class _Described:
    """Describes operations."""

    def __init__(
        self, schemas: dict[str, JsonSchemaValue], components: dict[str, JsonSchemaValue], doors: Sequence[Door]
    ) -> None:
        self._schemas = schemas
        self._doors = doors
        self._examples = SchemaExamples(components)
        self.errors = ErrorResponses(schemas)
        self._queries = self._queries_out_of(components)

    def _queries_out_of(self, components: dict[str, JsonSchemaValue]) -> dict[str, JsonSchemaValue]:
        """The schemas of query strings, which are taken apart into parameters, out of the components."""
        queries = {key: schema for key, schema in self._schemas.items() if key.endswith(" query")}
        found = {key: self._examples.resolved(schema) for key, schema in queries.items()}
        for schema in queries.values():
            components.pop(schema["$ref"].rpartition("/")[2], None)
        return found

    def operation(self, operation: Operation) -> Json:
        described: Json = {
            "operationId": operation.id,
            "summary": _first_sentence(operation.description),
            "description": operation.description,
            "tags": [door_of(operation.path, self._doors).name],
        }
        if operation.public:
            described["security"] = []
        if operation.deprecated is not None:
            described["deprecated"] = True
            described["description"] += f"\n\nDeprecated: use {operation.deprecated.use}."
        if parameters := [*_path(operation), *self._query(operation), *_headers(operation)]:
            described["parameters"] = parameters
        if operation.body is not None:
            described["requestBody"] = self._body(self._schemas[f"{operation.id} body"])
        if operation.upload is not None:
            described["requestBody"] = _file(operation.upload)
        answers = {str(operation.success): self._answer(operation)}
        if operation.accepts:
            answers["202"] = {"description": "It is taken, and there is nothing to say; there is no body."}
        described["responses"] = {**answers, **self.errors.of(operation)}
        return described

    def _query(self, operation: Operation) -> Iterable[Json]:
        if operation.query is None:
            return
        model = self._queries[f"{operation.id} query"]
        for name, schema in model["properties"].items():
            example = self._examples.of(schema, name)
            parameter: Json = {
                "name": name,
                "in": "query",
                "description": schema.get("description", ""),
                "required": name in model.get("required", ()),
                "schema": {key: value for key, value in schema.items() if key not in ("description", "examples")},
                "example": example,
            }
            if schema.get("type") == "array":
                parameter["explode"] = parameter["schema"].pop("explode", True)
            if not parameter["required"] and {"format", "enum", "minLength", "pattern"} & schema.keys():
                # It counts as absent, though the schema doesn't allow it.
                parameter["allowEmptyValue"] = True
            yield parameter

    def _body(self, schema: JsonSchemaValue) -> Json:
        return {
            "description": self._told(schema),
            "required": _needs_fields(self._examples.resolved(schema)),
            "content": {"application/json": self._content(schema)},
        }

    def _answer(self, operation: Operation) -> Json:
        if operation.answer_type is None:
            return {"description": "It is done; there is no body."}
        schema = self._schemas[f"{operation.id} answer"]
        if operation.answer is None or operation.answer.media_type == "application/json":
            content = {"application/json": self._content(schema)}
            if operation.answer is not None and operation.answer.or_text is not None:
                content[operation.answer.or_text] = {"schema": {"type": "string"}, "example": "# Weather in Bern"}
            if operation.answer is not None and operation.answer.or_events is not None:
                events = _event_of(self._schemas[f"{operation.id} events"], operation.answer.plain_data)
                content["text/event-stream"] = {"schema": events, "example": self._examples.of(events)}
            return {"description": self._told(schema), "content": content}
        media_type = operation.answer.media_type
        if media_type == BINARY:
            return {"description": "The content, of any media type.", "content": {"*/*": _CONTENT}}
        described = _event_of(schema, operation.answer.plain_data) if media_type == "text/event-stream" else schema
        content = {"schema": described, "example": self._examples.of(described)}
        return {"description": _SEQUENCES[media_type], "content": {media_type: content}}

    def _told(self, schema: JsonSchemaValue) -> str:
        """What the docstring of the schema's model says."""
        if schema.get("type") == "array":
            return f"A list. {self._told(schema['items'])}"
        return str(self._examples.resolved(schema).get("description", ""))

    def _content(self, schema: JsonSchemaValue) -> Json:
        """The content of a body with its example, which a component keeps for all that refer to it."""
        example = self._examples.of(schema)
        if "$ref" not in schema:
            return {"schema": schema, "example": example}
        self._examples.resolved(schema).setdefault("examples", [example])
        return {"schema": schema}


def _needs_fields(schema: JsonSchemaValue) -> bool:
    """Whether an empty object, as which an absent body counts, does not fit: it lacks a field, or one of several."""
    return bool(schema.get("required")) or any("required" in branch for branch in schema.get("anyOf", ()))


def _file(field: str) -> Json:
    """The multipart body with one file under this name."""
    schema = {"type": "object", "properties": {field: _BYTES}, "required": [field], "additionalProperties": False}
    example = {field: _CONTENT["example"]}
    described = {"schema": schema, "encoding": {field: {"contentType": "*/*"}}, "example": example}
    return {"description": "One file.", "required": True, "content": {"multipart/form-data": described}}


def _event_of(data: JsonSchemaValue, plain_data: str | None = None) -> JsonSchemaValue:
    """The schema of a server-sent event whose data is JSON of this schema, or `plain_data`.

    It has the form that OpenAPI 3.2 has for events, and tools expect before: https://spec.openapis.org/oas/v3.2.0.html
    """
    content: JsonSchemaValue = {"type": "string", "contentMediaType": "application/json", "contentSchema": data}
    return {
        "type": "object",
        "properties": {
            "event": {"type": "string", "description": "The type of the event."},
            "id": {"type": "string", "description": "The place of the event in its stream, where it has one."},
            "data": content if plain_data is None else {"anyOf": [content, {"const": plain_data}]},
        },
        "required": ["data"],
    }


def _first_sentence(text: str) -> str:
    return re.split(r"\.(?=\s|$)", text, maxsplit=1)[0]


def _path(operation: Operation) -> Iterable[Json]:
    parts = operation.path.split("/")
    for name in operation.path_parameters:
        kind = parts[parts.index(f"{{{name}}}") - 1].removesuffix("s")
        yield {
            "name": name,
            "in": "path",
            "description": f"The {name} of the {kind}.",
            "required": True,
            "schema": {"type": "string", "pattern": "^[^/]+$"},
            "example": _IDS.get(kind, _SESSION_ID),
        }


def _headers(operation: Operation) -> Iterable[Json]:
    for header in operation.headers:
        yield {
            "name": header.name,
            "in": "header",
            "description": header.description,
            "required": False,
            "schema": {"type": "string"},
            "example": header.example,
        }
