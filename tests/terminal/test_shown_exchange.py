"""What is written of an exchange where events are lost with a connection."""

import json
from io import StringIO

import pytest
from support.unseen_characters import UNSEEN, code

from agentic_backend.protocol.events import Delta, Final
from agentic_backend.protocol.messages import Channel, ChatMessage, ExchangeStatus, Role, TokenUsage
from agentic_backend.protocol.parts import FilePart, TextPart, ToolCallPart
from agentic_backend.terminal.screen import Screen
from agentic_backend.terminal.shown_exchange import ShownExchange, told

IDS = {"session_id": "s", "exchange_id": "e"}


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def message(rank: int, role: Role, channel: Channel, text: str) -> ChatMessage:
    parts = [TextPart(text=text)]
    return ChatMessage(**IDS, role=role, channel=channel, parts=parts, rank=rank, timestamp="2026-01-01T00:00:00Z")


def test_an_answer_that_comes_whole_after_its_beginning_is_told_as_such() -> None:
    terminal = Terminal()
    shown = ShownExchange(Screen(terminal))
    shown.show(Delta(**IDS, seq=1, block=0, channel=Channel.FINAL, text="one, two, "))
    messages = [
        message(0, Role.USER, Channel.FINAL, "count"),
        message(1, Role.ASSISTANT, Channel.FINAL, "one, two, three,"),
        message(2, Role.SYSTEM, Channel.ERROR, "The server went away."),
    ]
    ended = {"status": ExchangeStatus.INTERRUPTED, "session": None, "usage": TokenUsage()}
    shown.show(Final(**IDS, **ended, seq=2, messages=messages))
    _, between, after = terminal.getvalue().partition("shown again from its beginning:")
    assert between
    assert "one, two, three," in after
    assert after.count("went away") == 1


@pytest.mark.parametrize("character", UNSEEN.values(), ids=UNSEEN)
def test_names_of_tools_their_arguments_and_names_of_files_show_all_that_nobody_sees(character: str) -> None:
    name, escape = f"a{character}b", json.dumps(character)[1:-1].replace("\x7f", "\\u007f")
    call = ToolCallPart(call_id="c", name=name, args={name: name})
    assert told(call) == f'→ a{code(character)}b(a{code(character)}b="a{escape}b")'
    file = FilePart(attachment_id="f", name=name, mime="text/plain", size=1)
    assert told(file) == f"(file) a{code(character)}b, 1 bytes"
