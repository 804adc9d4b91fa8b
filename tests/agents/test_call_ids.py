"""A provider that numbers its calls anew in each response, as some local servers do: no call is lost or mixed up."""

import json
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool
from support.chat_client import chat, check_exchange, final_text
from support.providers.model_server import model_server
from support.providers.reply import Reply, ToolUse
from support.running_server import running_server

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.stores.sqlite import SqliteStore
from agentic_backend.stores.trail import ToolCallRecord, TrailQuery


@tool
def depth(lake: str) -> str:
    """How deep a lake is."""
    return f"{lake}: 217 m"


class Scout(AgentFlow):
    tool_names = ("depth",)

    async def async_init(self) -> None:
        self.graph = create_agent(self.chat_model(), tools=[depth], middleware=self.approval_middleware())

    def get_compiled_graph(self) -> CompiledGraph:
        return self.graph


TEAM = "agentic_backend.experts.team.team_leader:TeamLeader"
ASKED, PASSED_ON, ANSWER = "How deep are they?", "Thun and Brienz?", "Both are 217 m deep."
LAKES = ("Thun", "Brienz")


def numbers_anew(messages: list[dict[str, Any]]) -> Reply:
    """The leader asks the scout, which looks up one lake after the other: each of these calls is `call_0`."""
    question = next(message["content"] for message in messages if message["role"] == "user")
    results = sum(message["role"] == "tool" for message in messages)
    if question == ASKED:
        todo = [("ask_scout", {"question": PASSED_ON})]
    else:
        todo = [("depth", {"lake": lake}) for lake in LAKES]
    if results == len(todo):
        return Reply(ANSWER)
    name, args = todo[results]
    return Reply(calls=[ToolUse("call_0", name, json.dumps(args))])


@pytest.mark.parametrize("approved", [False, True])
async def test_calls_with_one_id_keep_their_results(tmp_path: Path, approved: bool) -> None:
    gate = {"require_approval": ["ask_scout"]} if approved else {}
    agents = [
        {"id": "scout", "class_path": f"{__name__}:Scout"},
        {"id": "chief", "type": "leader", "class_path": TEAM, "crew": ["scout"], **gate},
    ]
    async with model_server() as provider:
        provider.reply = numbers_anew
        options = {"base_url": f"{provider.url}/v1", "api_key": "sk-quokkaberry"}
        settings = {"models": {"default": {"model": "openai:gpt-test", "options": options}}}
        async with (
            running_server(tmp_path, agents=agents, settings=settings) as server,
            chat(server.address) as client,
        ):
            await client.send({"message": ASKED, "agent_id": "chief"})
            if approved:
                asked = await client.until("awaiting_human")
                await client.send(approval(asked))
            final = await client.until("final")
    events = [event for event in client.events if event.get("exchange_id") == final["exchange_id"]]
    check_exchange(events)
    assert final["status"] == "ok" and final_text(events) == ANSWER
    results = {part["call_id"]: part["content"] for part in parts_of(events, "tool_result")}
    calls = [(part["name"], results[part["call_id"]]) for part in parts_of(events, "tool_call")]
    assert calls == [("ask_scout", ANSWER), ("depth", "Thun: 217 m"), ("depth", "Brienz: 217 m")]
    records = await kept_records(server.data)
    assert sorted((record.name, record.state, record.result) for record in records) == [
        ("ask_scout", "success", ANSWER),
        ("depth", "success", "Brienz: 217 m"),
        ("depth", "success", "Thun: 217 m"),
    ]


def parts_of(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [part for message in events[-1]["messages"] for part in message["parts"] if part["type"] == kind]


def approval(asked: dict[str, Any]) -> dict[str, Any]:
    [request] = asked["payload"]["requests"]
    decision = {"call_id": request["call_id"], "args_sha256": request["args_sha256"], "action": "approve"}
    place = {"session_id": asked["session_id"], "exchange_id": asked["exchange_id"]}
    return {"type": "human_resume", **place, "payload": {"decisions": [decision]}}


async def kept_records(data: Path) -> list[ToolCallRecord]:
    store = await SqliteStore.open(data / "chat.sqlite3", timeout_s=60)
    try:
        return list((await store.trail(TrailQuery(ToolCallRecord))).records)
    finally:
        await store.aclose()
