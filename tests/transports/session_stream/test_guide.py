"""The chapter of docs/doors.md: the fields of every event, the category of every status, an example that runs."""

import json
import re
from typing import Any

import pytest
from support.doors_guide import chapter, fields_of, printed
from support.running_server import RunningServer
from support.tool_sessions import answer_in

from agentic_backend.transports.session_stream.errors import CATEGORIES
from agentic_backend.transports.session_stream.events import (
    Chunk,
    Done,
    DoneMeta,
    StreamError,
    ToolCall,
    ToolCalled,
    ToolResult,
    ToolReturned,
)
from agentic_backend.transports.session_stream.models import (
    Cancelled,
    CompletedToolSession,
    OpenedToolSession,
    OpenToolSession,
    SendContent,
    ToolSession,
    ToolSessionAuditRecord,
    ToolSessionMessage,
)

LINES = chapter("Session stream")
CHAPTER = " ".join(LINES.split())


@pytest.mark.parametrize(
    "model",
    [
        OpenToolSession,
        OpenedToolSession,
        ToolSession,
        SendContent,
        CompletedToolSession,
        Cancelled,
        ToolSessionMessage,
        ToolSessionAuditRecord,
        ToolCall,
        ToolResult,
        DoneMeta,
    ],
)
def test_the_guide_lists_the_fields_of_each_value(model: type[Any]) -> None:
    listed = [sorted(found.split(", ")) for found in re.findall(r"\{([^{}]*)\}", CHAPTER)]
    assert sorted(fields_of(model).split(", ")) in listed


@pytest.mark.parametrize("model", [Chunk, ToolCalled, ToolReturned, Done, StreamError])
def test_the_guide_has_a_row_for_each_event(model: type[Any]) -> None:
    [row] = re.findall(rf"\| `{model.model_fields['type'].default}` \| ([^|]*) \|", CHAPTER)
    shown = re.sub(r": \{.*\}", "", row.replace("`", ""))
    assert sorted(shown.split(", ")) == sorted(fields_of(model).split(", "))


def test_the_guide_has_the_category_of_every_status() -> None:
    rows = re.findall(r"\| `(\w+)` \| (\d[\d, ]*)", CHAPTER)
    listed = {int(status): category for category, statuses in rows for status in statuses.split(", ") if status.strip()}
    assert listed == CATEGORIES


async def test_the_example_of_the_guide_answers_as_it_shows(server: RunningServer) -> None:
    [opening, sending], shown = (block.splitlines() for block in re.findall(r"```\w*\n(.*?)```", LINES, re.DOTALL))
    session = json.loads(await printed(opening, server))
    answer = await printed(sending, server, ID=session["id"])
    assert unvarying(answer) == unvarying("\n".join(shown))


def unvarying(answer: str) -> tuple[str, list[dict[str, Any]]]:
    """The text of a stream, and its other events without what differs from one answer to the next."""
    events = [json.loads(line.removeprefix("data: ")) for line in answer.splitlines() if line.startswith("data: ")]
    others = [event for event in events if event["type"] != "chunk"]
    for event in others:
        for part in ("toolCall", "toolResult"):
            event.get(part, {}).pop("id", None)
        if event["type"] == "done":
            event["meta"] = {name: type(value) for name, value in event["meta"].items()}
    return answer_in(events), others
