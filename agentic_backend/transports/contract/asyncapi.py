"""The AsyncAPI 3.0 document of the WebSocket, made of the protocol's models.

As AsyncAPI has it, the server receives frames and sends events. The two forms of the protocol are two channels with one
address, which a client chooses between by the subprotocol that it offers.
"""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from pydantic.json_schema import JsonSchemaValue

from agentic_backend import errors
from agentic_backend.errors import AgenticError
from agentic_backend.protocol.close_codes import CloseCode
from agentic_backend.protocol.frames import LONGEST_TOKEN
from agentic_backend.transports.chatbot_controller import PATH, SUBPROTOCOL
from agentic_backend.transports.contract.classic_schemas import classic_schemas
from agentic_backend.transports.contract.protocol_schemas import ON_SOCKET, UNIONS, protocol_schemas
from agentic_backend.transports.contract.schemas import COMPONENTS

Json = dict[str, Any]

_FRAMES = {
    "authenticate": "Authenticate",
    "ask": "Ask",
    "human_resume": "HumanResume",
    "stop": "Stop",
    "follow": "Follow",
    "unfollow": "Unfollow",
    "ping": "Ping",
}
_OF_EXCHANGE = {
    "started": "Started",
    "stream": "Stream",
    "delta": "Delta",
    "activity": "Activity",
    "awaiting_human": "AwaitingHuman",
    "exchange_error": "ExchangeError",
    "reset": "Reset",
    "final": "Final",
}
_OTHER_EVENTS = {"session": "SessionChanged", "idle": "Idle", "frame_refused": "FrameRefused", "pong": "Pong"}


@dataclass(frozen=True)
class _Channel:
    """One form of the protocol. Frames and events have the names of their schemas, by the names of their messages."""

    name: str
    title: str
    description: str
    handshake: Json
    """The schema of the header that chooses this form."""
    frames: Mapping[str, str]
    events: Mapping[str, str]
    replies: Mapping[str, Sequence[str]]
    """The events that answer a frame; any frame may be refused."""
    prefix: str = ""
    """Of the operations' ids."""

    @property
    def all(self) -> dict[str, str]:
        return {**self.frames, **self.events}


_CHAT = _Channel(
    name="chat",
    title="Chat Protocol v2",
    description=(
        f"A socket that offers the subprotocol `{SUBPROTOCOL}`. It carries any number of sessions and exchanges at "
        "once, and frames and events are JSON texts. Clients ignore events, fields and values that they don't know; "
        "the server refuses frames with unknown fields. A handshake is refused with 400 if it offers other "
        "subprotocols only, and with 403 if its `Origin` is not allowed. What is wrong with a token is told by a close "
        "code, because browsers can't read the status of a refused handshake."
    ),
    handshake={"Sec-WebSocket-Protocol": {"type": "string", "const": SUBPROTOCOL, "description": "This form."}},
    frames=_FRAMES,
    events={**_OF_EXCHANGE, **_OTHER_EVENTS},
    replies={
        "ask": tuple(_OF_EXCHANGE),
        "human_resume": tuple(_OF_EXCHANGE),
        "stop": ("final", "idle"),
        "follow": (*_OF_EXCHANGE, "idle"),
        "ping": ("pong",),
    },
)
_CLASSIC = _Channel(
    name="classic",
    title="The classic form, for older clients",
    description=(
        "Deprecated; newer clients use the channel `chat`. A socket that offers no subprotocol. Text that is being "
        "written comes as `stream` events whose message has `metadata.extras.streaming_delta: true`; the unflagged "
        "message of the same rank takes its place. An exchange has the id that its client gave it. Any field of a "
        "frame may be null."
    ),
    handshake={},
    frames=_FRAMES | {"human_resume": "ClassicHumanResume"},
    events={
        "stream": "ClassicStream",
        "awaiting_human": "ClassicAwaitingHuman",
        "exchange_error": "ClassicError",
        "final": "ClassicFinal",
        "frame_refused": "FrameRefused",
    },
    replies={
        "stop": ("final",),
        **dict.fromkeys(("ask", "human_resume", "follow"), ("stream", "awaiting_human", "exchange_error", "final")),
    },
    prefix="classic_",
)
_CHANNELS = (_CHAT, _CLASSIC)


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
        "channels": {channel.name: _channel(channel) for channel in _CHANNELS},
        "operations": {
            name: operation for channel in _CHANNELS for name, operation in _operations(channel, schemas).items()
        },
        "components": {
            "messages": _messages(schemas),
            "schemas": {name: _in_draft_7(schema) for name, schema in schemas.items()},
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


def _channel(channel: _Channel) -> Json:
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


def _operations(channel: _Channel, schemas: Mapping[str, JsonSchemaValue]) -> Json:
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


def _of_channel(channel: _Channel, names: Iterable[str]) -> list[Json]:
    return [{"$ref": f"#/channels/{channel.name}/messages/{name}"} for name in names]


def _messages(schemas: Mapping[str, JsonSchemaValue]) -> Json:
    """The messages of both channels, by the names of their schemas."""
    kinds = {schema: name for channel in _CHANNELS for name, schema in channel.all.items()}
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


def _in_draft_7(schema: Any) -> Any:
    """The schema as AsyncAPI has it: a `discriminator` is the name of a property."""
    if isinstance(schema, list):
        return [_in_draft_7(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: value["propertyName"] if name == "discriminator" and isinstance(value, dict) else _in_draft_7(value)
        for name, value in schema.items()
    }
