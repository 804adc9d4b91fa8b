"""Graphs that fail, and graphs that can't be asked: typed errors that tell a client what it needs to know."""

import pytest
from graphs.talk import ask
from support.chat_client import chat, check_exchange, final_text, text_of
from support.running_server import RunningServer


async def test_a_node_that_raises_ends_its_exchange_and_not_its_session(server: RunningServer) -> None:
    async with chat(server.address) as client:
        events = await client.ask("my name is Zorblax; then fail", agent_id="failing")
        check_exchange(events)
        assert (events[-1]["status"], events[-1]["error"]["code"]) == ("error", "internal")
        assert events[-1]["error"].pop("detail")["text"] == events[-2].pop("detail")["text"] == "the secret of the node"
        assert "secret" not in str(events)
        [partial] = [text_of(m) for m in events[-1]["messages"][1:] if m["channel"] == "final"]
        assert partial.startswith("Nice to meet you, Zorblax!"), "what was said is kept"
        events = await client.ask("what is my name?", session_id=events[0]["session_id"])
        assert final_text(events) == "Your name is Zorblax."


async def test_a_model_that_fails_is_a_model_error(server: RunningServer) -> None:
    async with chat(server.address) as client:
        events = await client.ask("fail after 5 words", agent_id="swarm")
        check_exchange(events)
        assert (events[-1]["status"], events[-1]["error"]["code"]) == ("error", "model_error")
    await ask(server.address, "hello", session_id=events[0]["session_id"])


async def test_a_graph_that_never_ends_is_ended(server: RunningServer) -> None:
    async with chat(server.address) as client:
        events = await client.ask("hello", agent_id="endless")
    check_exchange(events)
    assert events[-1]["error"]["code"] == "limit_reached"
    assert "steps of 20" in events[-1]["error"]["content"]


@pytest.mark.parametrize(
    ("agent_id", "missing"),
    [
        ("without-messages", "has no 'messages' channel in its state"),
        ("without-input", "has no 'messages' in its input schema"),
        ("workflow", "takes no messages"),
    ],
)
async def test_a_graph_that_cant_be_asked_says_what_is_missing(
    server: RunningServer, agent_id: str, missing: str
) -> None:
    async with chat(server.address) as client:
        events = await client.ask("hello", agent_id=agent_id)
    check_exchange(events)
    error = events[-1]["error"]
    assert (events[-1]["status"], error["code"]) == ("error", "agent_unavailable")
    assert f"'{agent_id}' {missing}" in error["content"]
