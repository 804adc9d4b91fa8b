"""The AsyncAPI document: sound to AsyncAPI's own parser, and complete."""

import json
from copy import deepcopy
from typing import Any, get_args

import orjson
import pytest
from jsonschema import Draft7Validator
from services.asyncapi_parser import diagnostics

from agentic_backend import errors
from agentic_backend.errors import AgenticError
from agentic_backend.protocol.close_codes import CloseCode
from agentic_backend.protocol.events import Event
from agentic_backend.protocol.frames import ClientFrame
from agentic_backend.transports.contract.asyncapi import asyncapi
from agentic_backend.transports.socket.connection import PATH

Json = dict[str, Any]

DOCUMENT = asyncapi()
ERROR = 0
NEWER_VERSION = "asyncapi-latest-version"
"""Of AsyncAPI there are newer versions, which fewer tools read."""


def found(document: Json) -> list[Json]:
    return [each for each in diagnostics(orjson.dumps(document)) if each["code"] != NEWER_VERSION]


@pytest.mark.asyncapi_parser
def test_asyncapis_own_parser_finds_nothing() -> None:
    assert found(DOCUMENT) == []


@pytest.mark.asyncapi_parser
def test_asyncapis_own_parser_finds_a_dangling_reference_and_a_wrong_type() -> None:
    dangling, wrong = deepcopy(DOCUMENT), deepcopy(DOCUMENT)
    dangling["channels"]["chat"]["messages"]["ask"] = {"$ref": "#/components/messages/Asked"}
    wrong["components"]["schemas"]["Pong"]["type"] = "objekt"
    for document in (dangling, wrong):
        assert any(each["severity"] == ERROR for each in found(document))


@pytest.mark.parametrize("name", DOCUMENT["components"]["messages"])
def test_the_examples_of_a_message_are_valid(name: str) -> None:
    message = DOCUMENT["components"]["messages"][name]
    checks = Draft7Validator({"components": DOCUMENT["components"], **message["payload"]})
    assert message["examples"]
    for example in message["examples"]:
        checks.validate(example["payload"])
        assert not checks.is_valid(example["payload"] | {"type": "another"})


def payloads(action: str, channel: str = "chat") -> set[str]:
    """The names of the schemas of what the server receives or sends on a channel."""
    names: set[str] = set()
    for operation in DOCUMENT["operations"].values():
        if operation["action"] == action and operation["channel"] == {"$ref": f"#/channels/{channel}"}:
            for message in operation["messages"]:
                key = message["$ref"].removeprefix(f"#/channels/{channel}/messages/")
                names.add(DOCUMENT["channels"][channel]["messages"][key]["$ref"].split("/")[-1])
    return names


def leaves(base: type) -> set[str]:
    return {
        name
        for each in base.__subclasses__()
        for name in (leaves(each) if each.__subclasses__() else {each.__name__})
        if each.__module__.startswith("agentic_backend.")
    }


def test_every_frame_is_received_and_every_event_sent() -> None:
    union, _ = get_args(ClientFrame)
    assert payloads("receive") == {frame.__name__ for frame in get_args(union)}
    assert payloads("send") == leaves(Event)


def test_replies_are_those_of_the_protocol() -> None:
    def replies(operation: str) -> set[str]:
        return {reply["$ref"].split("/")[-1] for reply in DOCUMENT["operations"][operation]["reply"]["messages"]}

    assert replies("ping") == {"pong", "frame_refused"}
    assert replies("stop") == {"final", "idle", "frame_refused"}
    assert {"started", "reset", "final", "frame_refused"} <= replies("ask")
    assert {"reset", "idle"} <= replies("follow")


def test_older_clients_find_their_form_without_what_they_do_not_know() -> None:
    assert payloads("send", "classic") == {
        "ClassicStream",
        "ClassicAwaitingHuman",
        "ClassicError",
        "ClassicFinal",
        "FrameRefused",
    }
    for name in ("ClassicStream", "ClassicAwaitingHuman", "ClassicError", "ClassicFinal"):
        assert not {"seq", "block"} & DOCUMENT["components"]["schemas"][name]["properties"].keys()


def test_the_socket_has_its_address_subprotocol_and_ways_to_sign_in() -> None:
    chat, classic = DOCUMENT["channels"]["chat"], DOCUMENT["channels"]["classic"]
    assert chat["address"] == classic["address"] == PATH
    assert chat["bindings"]["ws"]["headers"]["properties"]["Sec-WebSocket-Protocol"]["const"] == "chat.v2"
    assert "Sec-WebSocket-Protocol" not in classic["bindings"]["ws"]["headers"]["properties"]
    assert "token" in chat["bindings"]["ws"]["query"]["properties"]
    assert DOCUMENT["components"]["securitySchemes"].keys() == {"bearer", "token"}


def test_every_error_code_and_every_close_code_is_told() -> None:
    known = {each.code for each in vars(errors).values() if isinstance(each, type) and issubclass(each, AgenticError)}
    assert {error["code"] for error in DOCUMENT["x-error-codes"]} == known
    assert [(close["code"], close["client"]) for close in DOCUMENT["x-close-codes"]] == [
        (code.value, code.advice.value) for code in CloseCode
    ]


def test_the_document_names_no_host_of_its_own() -> None:
    assert {server["host"] for server in DOCUMENT["servers"].values()} == {"{host}"}
    assert "agentic-backend.example" not in json.dumps(DOCUMENT)
