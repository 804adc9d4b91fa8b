"""What is packed can be read by people, whatever is in it."""

import base64
import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from agentic_backend.agents.state.kept_state import Kept, Packed, pack_states, serializer
from agentic_backend.agents.state.readable_state import readable


def test_the_states_of_a_sessions_agents_are_readable() -> None:
    messages = Packed(*serializer.dumps_typed([HumanMessage("why?"), AIMessage("because")]))
    channels = {"notes": Packed(*serializer.dumps_typed({"größer": [1.5, None]}))}
    read = readable(pack_states({"assistant": Kept(channels=channels, messages=messages, rank=4).pack()}))
    assert read["assistant"]["notes"] == {"größer": [1.5, None]}
    text = json.dumps(read)
    assert "why?" in text and "because" in text


@pytest.mark.parametrize("packed", [b"", b"\xc1 not packed", b"\x81", b"\x93\x01"])
def test_what_cannot_be_unpacked_is_base64(packed: bytes) -> None:
    assert readable(packed) == {"base64": base64.b64encode(packed).decode()}


@pytest.mark.parametrize("value", [b"\xff\x00", {1: {2: b"\xff"}}, float("inf"), [("msgpack", b"\xc1")], {"a": {1, 2}}])
def test_anything_becomes_json(value: Any) -> None:
    json.dumps(readable(serializer.dumps_typed({"value": value})[1]))


def test_what_is_packed_in_itself_too_often_ends() -> None:
    packed = serializer.dumps_typed("inmost")
    for _ in range(100):
        packed = serializer.dumps_typed([packed])
    json.dumps(readable(packed[1]))
