"""The chapter of docs/doors.md: the fields of every event, the category of every status, an example that runs."""

import asyncio
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.chat_client import PATIENCE_S
from support.running_server import RunningServer
from support.services import require
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

GUIDE = (Path(__file__).parents[3] / "docs" / "doors.md").read_text()
LINES = GUIDE.split("\n## Session stream\n")[1].split("\n## ")[0]
CHAPTER = " ".join(LINES.split())


def fields_of(model: type[Any]) -> str:
    """The names of the fields, with a mark where a field may be absent, as the guide lists them."""
    names = []
    for name, field in model.model_fields.items():
        is_optional = not field.is_required() and name != "type"
        names.append(f"{field.alias or name}{'?' * is_optional}")
    return ", ".join(name for name in names if name != "type")


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
    require("curl", shutil.which("curl") is not None, "it is not on the PATH")
    [opening, sending], shown = (block.splitlines() for block in re.findall(r"```\w*\n(.*?)```", LINES, re.DOTALL))
    session = json.loads(await printed(opening, server))
    answer = await printed(sending, server, ID=session["id"])
    assert unvarying(answer) == unvarying("\n".join(shown))


async def printed(command: str, server: RunningServer, **variables: str) -> str:
    """What a command of the guide prints."""
    command = command.replace("http://127.0.0.1:8000", server.address)
    environment = os.environ | {"TOKEN": "dev:alice"} | variables
    process = await asyncio.create_subprocess_shell(
        command, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    async with asyncio.timeout(PATIENCE_S):
        output, _ = await process.communicate()
    return output.decode()


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
