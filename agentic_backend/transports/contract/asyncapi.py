"""The AsyncAPI 3.0 document of the WebSocket, made of the protocol's models.

As AsyncAPI has it, the server receives frames and sends events.
"""

import inspect
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any

from pydantic.json_schema import JsonSchemaValue

from agentic_backend import errors
from agentic_backend.errors import AgenticError
from agentic_backend.protocol.close_codes import CloseCode
from agentic_backend.protocol.frames import LONGEST_TOKEN
from agentic_backend.transports.contract.channels import CHANNELS, Channel
from agentic_backend.transports.contract.classic_schemas import classic_schemas
from agentic_backend.transports.contract.json_schemas import COMPONENTS
from agentic_backend.transports.contract.protocol_schemas import ON_SOCKET, UNIONS, protocol_schemas
from agentic_backend.transports.socket.connection import PATH

Json = dict[str, Any]


def asyncapi() -> Json:
    """The document. It depends on no setting: every server of this version has this socket."""
    models = protocol_schemas(ON_SOCKET, COMPONENTS)
    schemas = {name: schema for name, schema in (models | classic_schemas(models)).items() if name not in UNIONS}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Agentic Backend",
            "version": version("agentic-backend"),
            "description": "People talk to LangGraph agents in real time, over a WebSocket.",
            "tags": [{"name": "chat", "description": "Sessions, exchanges and messages."}],
        },
        "defaultContentType": "application/json",
        "servers": _servers(),
        "channels": {channel.name: _channel(channel) for channel in CHANNELS},
        "operations": {
            name: operation for channel in CHANNELS for name, operation in _operations(channel, schemas).items()
        },
        "components": {
            "messages": _messages(schemas),
            "schemas": {name: _component(schema) for name, schema in schemas.items()},
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "bearerFormat": "JWT",
                    "description": "An access token in the handshake's header `Authorization`.",
                },
                "token": {
                    "type": "httpApiKey",
                    "in": "query",
                    "name": "token",
                    "description": "An access token in the handshake's query, for browsers; it is in no log.",
                },
            },
        },
        "x-error-codes": _error_codes(),
        "x-close-codes": _close_codes(),
    }


def _servers() -> Json:
    description = (
        "A socket without a token in its handshake begins with an `authenticate`. In developer mode none is needed."
    )
    return {
        name: {
            "host": "{host}",
            "protocol": protocol,
            "description": description,
            "variables": {"host": {"description": "The server's name and port.", "default": host}},
            "security": [{"$ref": f"#/components/securitySchemes/{scheme}"} for scheme in ("bearer", "token")],
        }
        for name, protocol, host in (("local", "ws", "127.0.0.1:8000"), ("deployed", "wss", "chat.example.org"))
    }


def _channel(channel: Channel) -> Json:
    token = {"type": "string", "maxLength": LONGEST_TOKEN, "description": "An access token."}
    bearer = {"type": "string", "description": "`Bearer` and an access token."}
    return {
        "address": PATH,
        "title": channel.title,
        "description": channel.description,
        "messages": {name: {"$ref": f"#/components/messages/{schema}"} for name, schema in channel.all.items()},
        "bindings": {
            "ws": {
                "method": "GET",
                "query": {"type": "object", "properties": {"token": token}},
                "headers": {"type": "object", "properties": {"Authorization": bearer, **channel.handshake}},
                "bindingVersion": "0.1.0",
            }
        },
    }


def _operations(channel: Channel, schemas: Mapping[str, JsonSchemaValue]) -> Json:
    def operation(action: str, name: str) -> Json:
        return {
            "action": action,
            "title": name,
            "summary": schemas[channel.all[name]]["description"],
            "channel": {"$ref": f"#/channels/{channel.name}"},
            "messages": _of_channel(channel, [name]),
        }

    received = {
        name: operation("receive", name)
        | {
            "reply": {
                "channel": {"$ref": f"#/channels/{channel.name}"},
                "messages": _of_channel(channel, [*channel.replies.get(name, ()), "frame_refused"]),
            }
        }
        for name in channel.frames
    }
    sent = {name: operation("send", name) for name in channel.events}
    return {f"{channel.prefix}{name}": each for name, each in (received | sent).items()}


def _of_channel(channel: Channel, names: Iterable[str]) -> list[Json]:
    return [{"$ref": f"#/channels/{channel.name}/messages/{name}"} for name in names]


def _messages(schemas: Mapping[str, JsonSchemaValue]) -> Json:
    """The messages of both channels, by the names of their schemas."""
    kinds = {schema: name for channel in CHANNELS for name, schema in channel.all.items()}
    return {
        name: {
            "name": kinds[name],
            "title": name,
            "summary": schemas[name]["description"],
            "contentType": "application/json",
            "payload": {"$ref": COMPONENTS.format(model=name)},
            "examples": [{"payload": example} for example in schemas[name]["examples"]],
            **_correlation(schemas[name]),
        }
        for name in sorted(kinds)
    }


def _correlation(schema: JsonSchemaValue) -> Json:
    """Where a message has the id by which a client finds what it belongs to."""
    name = next((each for each in ("client_exchange_id", "exchange_id") if each in schema["properties"]), None)
    return {"correlationId": {"location": f"$message.payload#/{name}"}} if name else {}


def _error_codes() -> list[Json]:
    """What `code` may be in an event of type `error`, and in the `error` of a `final`."""
    classes = [each for each in vars(errors).values() if inspect.isclass(each) and issubclass(each, AgenticError)]
    codes = {
        each.code: {
            "code": each.code,
            "whose": each.whose,
            "retryable": each.retryable,
            "description": each.default,
        }
        for each in classes
    }
    return [codes[code] for code in sorted(codes)]


def _close_codes() -> list[Json]:
    """The codes that the server closes a socket with, and what the client then does."""
    return [{"code": code.value, "name": code.name.lower(), "client": code.advice.value} for code in CloseCode]


def _component(schema: Any) -> Any:
    """The schema as AsyncAPI has it: a `discriminator` is the name of a property. The examples are at the messages."""
    if isinstance(schema, list):
        return [_component(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: value["propertyName"] if name == "discriminator" else _component(value)
        for name, value in schema.items()
        if name != "examples"
    }
