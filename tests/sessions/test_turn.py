"""Turn: its limits are the same whatever door it came through, and what it says is the exchange's first message."""

from typing import Any

import pytest

from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.errors import BadFrame, MessageTooLarge
from agentic_backend.protocol.frames import Ask
from agentic_backend.protocol.messages import Channel, Role
from agentic_backend.protocol.parts import CodePart, TextPart
from agentic_backend.sessions.asking.turn import Turn
from agentic_backend.transports.socket.connection import turn_of

LIMITS = LimitsSettings(message_bytes=1024, runtime_context_bytes=1024)


def said(*texts: str, **fields: Any) -> Turn:
    return Turn(parts=[TextPart(text=text) for text in texts], **fields)


def test_a_message_counts_in_bytes_and_with_all_its_parts() -> None:
    said("x" * 1024).check(LIMITS)
    for turn in (said("x" * 1025), said("é" * 513), said("x" * 512, "x" * 512)):
        with pytest.raises(MessageTooLarge, match="1024"):
            turn.check(LIMITS)


def test_a_runtime_context_has_its_limit() -> None:
    said("Hi", runtime_context={"a": "x" * 1000}).check(LIMITS)
    nested: dict[str, Any] = {}
    for _ in range(300):
        nested = {"a": nested}
    for context in ({"a": "x" * 1024}, nested):
        with pytest.raises(BadFrame, match=r"^runtime_context: "):
            said("Hi", runtime_context=context).check(LIMITS)


def test_it_is_the_first_message_of_its_exchange() -> None:
    turn = Turn(parts=[TextPart(text="Look:"), CodePart(language="python", code="1 + 1")])
    assert (turn.message.role, turn.message.channel, turn.message.parts) == (Role.USER, Channel.FINAL, turn.parts)
    assert turn.text == "Look:\n1 + 1"


def test_an_ask_says_all_but_its_tokens() -> None:
    fields: dict[str, Any] = {
        "session_id": "s",
        "agent_id": "a",
        "client_exchange_id": "mine",
        "runtime_context": {"locale": "fr"},
    }
    ask = Ask(message="Hi", access_token="secret", attachments=["one", "two"], **fields)
    assert turn_of(ask) == said("Hi", attachments=("one", "two"), **fields)
    assert turn_of(Ask(message="Hi", mode="query")) == said("Hi", mode="query")
    assert turn_of(Ask(message="Hi")) == said("Hi")
