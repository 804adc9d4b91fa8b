"""Whatever modules raise, hang, block or rewrite, over real sockets the contract's invariants hold."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.tools import tool
from services.mongodb import further_on_mongodb
from support.chat_client import Event, chat, check_calls, text_of
from support.hostile_modules import ACTS, MADE, Acting, entry
from support.rest_client import rest, sse_events
from support.running_server import RunningServer, running_server

from agentic_backend.offline.model import OfflineChatModel

HERE = __name__
_ACTS = st.sampled_from([*ACTS, "block_word", "redact", "for_model", "back", "guide"])


@tool
async def look_up() -> str:
    """Look it up."""
    return "the secret result"


graph = create_agent(OfflineChatModel(words_per_second=0), tools=[look_up])
AGENTS: list[dict[str, Any]] = [
    {"id": "tools", "class_path": f"{HERE}:graph"},
    {"id": "held", "class_path": f"{HERE}:graph", "hold_output": True},
]


@pytest.fixture
async def server(store_url: str, tmp_path: Path) -> AsyncIterator[RunningServer]:
    file = tmp_path / "modules.yaml"
    both = [entry("first", timeout_s=0.05, priority=1), entry("second", timeout_s=0.05, on_failure="block")]
    file.write_text(yaml.safe_dump({"modules": both}))
    MADE.clear()
    options = {"modules": {"file": str(file)}, "store": {"url": store_url}}
    async with running_server(tmp_path, agents=AGENTS, settings=options) as server:
        yield server


def check_contract(events: list[Event], *, held: bool) -> None:
    """The invariants of one exchange; modules may have replaced the texts of blocks."""
    events = [event for event in events if "seq" in event]
    seqs = [event["seq"] for event in events]
    assert seqs == sorted(set(seqs))
    assert [event["type"] for event in events].count("final") == 1
    final = events[-1]
    assert final["status"] in ("ok", "blocked")
    messages = final["messages"]
    assert [event["message"] for event in events if event["type"] == "stream"] == messages
    assert messages[0]["role"] == "user"
    ranks = [message["rank"] for message in messages]
    assert ranks == list(range(ranks[0], ranks[0] + len(ranks)))
    finals = [one for one in messages if (one["role"], one["channel"]) == ("assistant", "final")]
    assert finals == messages[-1:], "exactly one final, at the end"
    check_calls(messages)
    assert not held or "delta" not in {event["type"] for event in events}


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    acts=st.lists(st.tuples(_ACTS, _ACTS, _ACTS), min_size=2, max_size=2),
    message=st.sampled_from(["my secret", "use the tool look_up with {}", "hello"]),
    agent_id=st.sampled_from(["tools", "held"]),
)
@further_on_mongodb("store_url")
async def test_the_contract_holds_whatever_modules_do(
    server: RunningServer, acts: list[tuple[str, str, str]], message: str, agent_id: str
) -> None:
    for module, (before, after, of_tool) in zip(MADE, acts, strict=True):
        module.settings = Acting.Settings(before=before, after=after, tool=of_tool)
    async with chat(server.address) as client:
        events = await client.ask(message, agent_id=agent_id)
        check_contract(events, held=agent_id == "held")
        again = await client.ask("and then?", session_id=events[-1]["session_id"])
        check_contract(again, held=agent_id == "held")
    async with rest(server) as client:
        answer: httpx.Response = await client.get(f"/sessions/{events[-1]['session_id']}/messages")
    shown = [*events[-1]["messages"], *again[-1]["messages"]]
    assert answer.json()["messages"] == shown, "what is stored is what was shown"


@pytest.mark.parametrize(
    ("before", "after", "status", "texts"),
    [
        ("redact", "", "ok", ["my ***"]),
        ("block_word", "", "blocked", ["[blocked]", "That is not said here."]),
        ("", "block", "blocked", ["my secret", "This can't be answered here."]),
    ],
)
@further_on_mongodb("store_url")
async def test_sse_classic_sockets_and_queries_show_what_modules_leave(
    server: RunningServer, before: str, after: str, status: str, texts: list[str]
) -> None:
    for module in MADE:
        module.settings = Acting.Settings(before=before, after=after)
    ask = {"message": "my secret", "agent_id": "tools"}
    async with rest(server) as http:
        session = (await http.post("/sessions", json={"agent_id": "tools"})).json()
        async with http.stream(
            "POST", f"/sessions/{session['id']}/messages", json={"content": "my secret"}
        ) as response:
            streamed = [event async for event in sse_events(response)]
    async with chat(server.address, subprotocols=None) as older:
        await older.send(ask)
        classic = await older.until("final")
    async with chat(server.address) as client:
        query = await client.ask(**ask, mode="query")
    for final in (streamed[-1], classic, query[-1]):
        shown = [text_of(message) for message in final["messages"]]
        assert shown[: len(texts)] == texts
        assert final.get("status", status) == status
    assert before == "" or "secret" not in str([*streamed, *older.events, *query])
