"""Calls that can't run, by real clients of providers: none runs, the model is told, and a run without progress ends."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from providers.conftest import MODELS
from support.chat_client import chat, check_exchange, final_text
from support.further_cases import each_once
from support.providers.model_server import ModelServer
from support.providers.reply import Reply, ToolUse, calls
from support.running_server import RunningServer, running_server

from agentic_backend.agents.tools.unfit_calls import INVALID, NOT_RUN

ASSISTANT = "agentic_backend.experts.assistant.assistant:Assistant"
WHOLE = '{"expression": "12*34"}'
UNFIT = ["null", "[]", "12", '"{\\"expression\\": \\"1\\"}"', "{expression: 1}", '{"expression": "12', WHOLE + "}"]


def wrong(arguments: str, *, at_limit: bool = False) -> Reply:
    return Reply(calls=[ToolUse("c1", "calculate", arguments)], at_limit=at_limit)


def parts(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [part for message in events[-1]["messages"] for part in message["parts"] if part["type"] == kind]


@pytest.mark.parametrize(
    ("first", "model"),
    [
        *each_once(map(wrong, UNFIT), MODELS.values()),
        *each_once([wrong(text, at_limit=True) for text in ('{"expression": "12', WHOLE, "")], MODELS.values()),
    ],
    ids=[
        f"{first}-{model}"
        for first, model in product([*UNFIT, "cut", "cut after its end", "cut before its arguments"], MODELS)
    ],
)
async def test_the_model_is_told_and_may_try_again(provider: ModelServer, server: RunningServer, first: Reply) -> None:
    replies = iter([first, calls(calculate={"expression": "2*4"}), Reply("Eight.")])
    provider.reply = lambda messages: next(replies)
    async with chat(server.address) as client:
        events = await client.ask("How much is it?")
    check_exchange(events)
    assert events[-1]["status"] == "ok" and final_text(events) == "Eight."
    assert [part["args"] for part in parts(events, "tool_call")] == [
        {INVALID: first.calls[0].arguments},
        {"expression": "2*4"},
    ]
    assert [(part["ok"], part["content"]) for part in parts(events, "tool_result")] == [
        (False, NOT_RUN),
        (True, "2*4 = 8"),
    ]
    assert [message["content"] for message in provider.asked[1].asked.messages if message["role"] == "tool"] == [
        NOT_RUN
    ]


async def test_a_model_that_makes_no_progress_ends_the_exchange(provider: ModelServer, server: RunningServer) -> None:
    provider.reply = lambda messages: wrong('{"expression": "12', at_limit=True)
    async with chat(server.address) as client:
        events = await client.ask("How much is it?")
    check_exchange(events)
    assert (events[-1]["status"], events[-1]["error"]["code"]) == ("error", "model_error")
    assert "cut off" in events[-2]["content"]
    assert len(provider.asked) == 3


async def test_nobody_is_asked_to_approve_of_a_call_that_can_not_run(provider: ModelServer, tmp_path: Path) -> None:
    replies = iter([wrong('{"expression": "12', at_limit=True), Reply("No.")])
    provider.reply = lambda messages: next(replies)
    agents = [{"id": "asking", "class_path": ASSISTANT, "require_approval": ["calculate"]}]
    settings = {"models": {"default": {"model": "openai:gpt-5.4-mini"}}}
    async with running_server(tmp_path, settings=settings, agents=agents) as server, chat(server.address) as client:
        events = await client.ask("How much is it?", agent_id="asking")
    assert "awaiting_human" not in [event["type"] for event in events]
    assert [part["content"] for part in parts(events, "tool_result")] == [NOT_RUN]
