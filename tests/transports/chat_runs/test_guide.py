"""The chapter of docs/doors.md: the fields of every body, answer and event, and an example that runs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.doors_guide import chapter, fields_of, printed
from support.run_client import Event, check_run, only
from support.running_server import ASSISTANT, running_server

from agentic_backend.transports.chat_runs.bodies import DecideToolCall, ResumeRun
from agentic_backend.transports.chat_runs.events import (
    AgentProgress,
    AgentSummary,
    AgentSwitch,
    DecidedRun,
    Handoff,
    ResumedRun,
    RunDone,
    RunError,
    RunFailure,
    TextDelta,
    ToolApprovalRequested,
    ToolEnd,
    ToolStart,
)

CHAPTER = chapter("Chat runs")
CAREFUL = {**ASSISTANT, "id": "careful", "default": False, "require_approval": ["slow_task"]}


@pytest.mark.parametrize(
    "model",
    [
        TextDelta,
        AgentSwitch,
        Handoff,
        ToolStart,
        ToolEnd,
        ToolApprovalRequested,
        AgentProgress,
        AgentSummary,
        RunError,
        RunDone,
    ],
)
def test_the_guide_has_a_row_for_each_event(model: type[Any]) -> None:
    [row] = re.findall(rf"\| `{model.model_fields['type'].default}` \| ([^|]*) \|", CHAPTER)
    shown = re.sub(r": \{.*\}", "", row.replace("`", ""))
    assert shown == fields_of(model)


@pytest.mark.parametrize("model", [DecideToolCall, ResumeRun, DecidedRun, ResumedRun])
def test_the_guide_lists_the_fields_of_each_body_and_answer(model: type[Any]) -> None:
    assert f"{{{fields_of(model)}}}" in CHAPTER


def test_the_guide_lists_the_fields_of_a_failure() -> None:
    assert f"{{type, {fields_of(RunFailure)}}}" in CHAPTER


async def test_the_example_of_the_guide_answers_as_it_shows(tmp_path: Path) -> None:
    [asking], shown, [approving] = (block.splitlines() for block in re.findall(r"```\w*\n(.*?)```", CHAPTER, re.DOTALL))
    # On a busy machine the server would tell of code that blocks it.
    patient = {"agents": {"blocking_s": 60}}
    async with running_server(tmp_path, agents=[CAREFUL], settings=patient) as server:
        events = events_in(await printed(asking, server))
        assert unvarying(events) == unvarying(events_in("\n".join(shown)))
        [requested] = only(events, "tool_approval_requested")
        answer = json.loads(await printed(approving, server, CALL=requested["toolCallId"]))
    check_run(answer["events"])
    assert answer["ok"] is True and answer["events"][-1]["status"] == "succeeded"


def events_in(stream: str) -> list[Event]:
    return [json.loads(line.removeprefix("data: ")) for line in stream.splitlines() if line.startswith("data: ")]


def unvarying(events: list[Event]) -> list[Event]:
    """The events with `…` for the ids that the server makes."""
    made = {"toolCallId": "…", "conversationId": "…"}
    return [{name: made.get(name, value) for name, value in event.items()} for event in events]
