"""The chapter of docs/doors.md has the fields of every event, and the category of every status."""

import re
from pathlib import Path
from typing import Any

import pytest

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
CHAPTER = " ".join(GUIDE.split("\n## Session stream\n")[1].split("\n## ")[0].split())


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
