"""Operation: how a model's arguments become an HTTP request. Pure.

Invariants: arguments reach only the places that the document gives them; a path parameter stays one segment; no
argument sets a header that the server or the connection needs.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from agentic_backend.apis.openapi_document import OpenApi, RawOperation
from agentic_backend.inlined_schema import (
    Resolver,
    SchemaInliner,
    UnusableSchema,
    require_no_lookalike,
    resolved,
)
from agentic_backend.mcp import distinct_names, tool_name

_LONGEST_DESCRIPTION = 4_000
_MOST_PARAMETERS = 200
_BODY = "body"
_PLACES = ("path", "query", "header")
"""Cookies are nothing that a model gives."""
_RESERVED_HEADERS = re.compile(
    r"(?i)accept.*|authorization|connection|content-.*|cookie|expect|forwarded|host|idempotency-key|keep-alive|proxy-.*"
    r"|referer|te|trailer|transfer-encoding|upgrade|via|x-forwarded-.*|x-real-ip"
)
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_JSON = re.compile(r"(?i)application/(?:[\w.+-]+\+)?json\s*(?:;[ -~]*)?$")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


class NotUsable(Exception):
    """An operation can't be a tool; the text says why."""


class BadArgument(Exception):
    """An argument of a call can't be sent; the text says why, for the model."""


@dataclass(frozen=True, slots=True)
class Parameter:
    argument: str
    """What the model calls it."""
    name: str
    place: str
    """`path`, `query` or `header`."""
    explode: bool
    style: str


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    """Percent-encoded, from its slash on."""
    query: Sequence[tuple[str, str]]
    headers: Mapping[str, str]
    body: bytes | None


@dataclass(frozen=True, slots=True)
class Operation:
    method: str
    path: str
    title: str
    description: str
    parameters: Sequence[Parameter]
    body_type: str | None
    """The content type of its body; None if it has none."""
    schema: Mapping[str, Any]
    """JSON Schema of the arguments: an object."""

    def request(self, arguments: Mapping[str, Any]) -> Request:
        """The request with the arguments, which fit the schema. Raises BadArgument."""
        values = {one.name: arguments[one.argument] for one in self._in("path")}
        path = _PLACEHOLDER.sub(lambda match: _segment(match[1], values[match[1]]), self.path)
        query = [pair for one in self._in("query") for pair in _query(one, arguments.get(one.argument))]
        given = ((one, arguments.get(one.argument)) for one in self._in("header"))
        headers = {one.name: _header(one, value) for one, value in given if value is not None}
        body = None
        if self.body_type is not None and _BODY in arguments:
            body = json.dumps(arguments[_BODY], ensure_ascii=False).encode(errors="replace")
            headers["Content-Type"] = self.body_type
        return Request(self.method, path, query, headers, body)

    def _in(self, place: str) -> Iterator[Parameter]:
        return (one for one in self.parameters if one.place == place)


def operation_of(raw: RawOperation, document: OpenApi, auth_header: str | None = None) -> Operation:
    """The operation, whose arguments never set `auth_header`. Raises NotUsable."""
    try:
        return _operation(raw, document, (auth_header or "").lower())
    except UnusableSchema as error:
        raise NotUsable(str(error)) from error


def _operation(raw: RawOperation, document: OpenApi, auth_header: str) -> Operation:
    inliner = SchemaInliner(document.resolver, of_version_3_0)
    described = _parameters(raw, document.resolver, auth_header)
    body_type, body_schema, is_required = _body(raw, document.resolver, inliner)
    arguments = _arguments(described, has_body=body_type is not None)
    properties: dict[str, Any] = {}
    required: list[str] = []
    parameters: list[Parameter] = []
    for argument, parameter in zip(arguments, described, strict=True):
        place = parameter["in"]
        if place == "header" and not _HEADER_NAME.fullmatch(parameter["name"]):
            raise NotUsable(f"no header can be called {parameter['name']!r}")
        style = str(parameter.get("style", "form" if place == "query" else "simple"))
        explode = parameter.get("explode", style in ("form", "deepObject")) is True
        parameters.append(Parameter(argument, parameter["name"], place, explode, style))
        properties[argument] = _described(inliner.inlined(parameter.get("schema") or {}), parameter.get("description"))
        if place == "path" or parameter.get("required") is True:
            required.append(argument)
    if body_type is not None:
        properties[_BODY] = body_schema
        required += [_BODY] if is_required else []
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    require_no_lookalike(schema)
    if re.search(r"[?#]", raw.path):
        raise NotUsable("its path has a query or a fragment")
    # All that is in braces is a parameter.
    names = {one.name for one in parameters if one.place == "path"}
    if not set(_PLACEHOLDER.findall(raw.path)) <= names:
        raise NotUsable("its path has a parameter that is not described")
    summary, description = raw.values.get("summary"), raw.values.get("description")
    texts = [text.strip() for text in (summary, description) if isinstance(text, str) and text.strip()]
    told = "\n\n".join(dict.fromkeys([*texts, raw.signature]))[:_LONGEST_DESCRIPTION]
    title = summary if isinstance(summary, str) else ""
    return Operation(raw.method, raw.path, title, told, parameters, body_type, schema)


def of_version_3_0(made: dict[str, Any], schema: Mapping[Any, Any]) -> dict[str, Any]:
    """What was `made` of a schema, with what OpenAPI 3.0 says otherwise than JSON Schema."""
    for name in ("example", "nullable"):
        made.pop(name, None)
    if schema.get("nullable") is True:
        if isinstance(made.get("type"), str):
            made["type"] = [made["type"], "null"]
            if isinstance(made.get("enum"), list) and None not in made["enum"]:
                made["enum"] = [*made["enum"], None]
        elif made:
            return {"anyOf": [made, {"type": "null"}]}
    return made


def _parameters(raw: RawOperation, resolver: Resolver, auth_header: str) -> list[Mapping[str, Any]]:
    """The parameters that a model gives; an operation's own replaces one of its path."""
    own = raw.values.get("parameters")
    found: dict[tuple[str, object], Mapping[str, Any]] = {}
    for value in [*raw.shared, *(own if isinstance(own, list) else [])][:_MOST_PARAMETERS]:
        parameter = resolved(value, resolver)
        if not isinstance(parameter, Mapping):
            continue
        name, place = parameter.get("name"), parameter.get("in")
        if (
            not isinstance(name, str)
            or not isinstance(place, str)
            or place not in ("path", "query", "header", "cookie")
        ):
            continue
        is_reserved = name.lower() == auth_header or _RESERVED_HEADERS.fullmatch(name) is not None
        if place != "header" or not is_reserved:
            found[name, place] = parameter
    return list(found.values())


def _arguments(parameters: Sequence[Mapping[str, Any]], *, has_body: bool) -> list[str]:
    """Names that every provider accepts, and that differ from each other and from the body's."""
    names = [tool_name(parameter["name"]) or "_" for parameter in parameters]
    reserved = [_BODY] if has_body else []
    return distinct_names([*reserved, *names])[len(reserved) :]


def _body(raw: RawOperation, resolver: Resolver, inliner: SchemaInliner) -> tuple[str | None, Any, bool]:
    """The content type, the schema, and whether it is required."""
    body = resolved(raw.values.get("requestBody"), resolver)
    content = body.get("content") if isinstance(body, Mapping) else None
    if not isinstance(content, Mapping) or not content:
        return None, {}, False
    is_required = body.get("required") is True
    kind = next((kind for kind in content if isinstance(kind, str) and _JSON.match(kind)), None)
    if kind is None:
        if is_required:
            raise NotUsable("its body is not JSON")
        return None, {}, False
    media = content[kind]
    schema = inliner.inlined(media.get("schema") or {}) if isinstance(media, Mapping) else {}
    return kind, _described(schema, body.get("description")), is_required


def _described(schema: Any, description: object) -> Any:
    if isinstance(schema, dict) and "description" not in schema and isinstance(description, str):
        return {**schema, "description": description[:_LONGEST_DESCRIPTION]}
    return schema


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(map(_text, value))
    if isinstance(value, dict):
        return ",".join(f"{key},{_text(item)}" for key, item in value.items())
    return "" if value is None else str(value)


def _segment(name: str, value: Any) -> str:
    text = _text(value)
    # Servers and proxies may decode a segment before they look for `..` in it.
    if not text or {".", ".."} & set(re.split(r"[/\\]", text)):
        raise BadArgument(f"{name!r} is part of a path, and may neither be empty nor have '.' or '..' between slashes")
    return quote(text, safe="", errors="replace")


def _query(parameter: Parameter, value: Any) -> Iterator[tuple[str, str]]:
    if value is None:
        return
    if isinstance(value, list) and parameter.explode:
        yield from ((parameter.name, _text(item)) for item in value)
    elif isinstance(value, dict) and parameter.style == "deepObject":
        yield from ((f"{parameter.name}[{key}]", _text(item)) for key, item in value.items())
    elif isinstance(value, dict) and parameter.explode:
        yield from ((str(key), _text(item)) for key, item in value.items())
    else:
        yield parameter.name, _text(value)


def _header(parameter: Parameter, value: Any) -> str:
    text = _text(value)
    if not text.isascii() or not text.isprintable():
        raise BadArgument(f"{parameter.name!r} is a header, and may have only printable ASCII characters")
    return text
