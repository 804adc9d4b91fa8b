"""Every session gets its title, whatever its first exchange was and over whichever transport it was asked."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from graphs.unnamed import AGENTS
from support.chat_client import PATIENCE_S, ChatClient, chat
from support.rest_client import rest
from support.running_server import FAST, RunningServer, running_server

MESSAGE = "please tell me about the weather in Tokyo"
TITLE = "About Weather Tokyo"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path, agents=AGENTS) as server:
        yield server


async def title_after_the_end(client: ChatClient) -> str:
    """The title in the `session` event, which comes after the exchange has ended or begun to wait."""
    types = [event["type"] for event in client.events]
    assert {"final", "awaiting_human"} & set(types) and "session" not in types
    title: str = (await client.until("session"))["session"]["title"]
    return title


async def titled(calls: httpx.AsyncClient, session_id: str, title: str) -> None:
    """The session gets this title, and keeps it."""
    async with asyncio.timeout(PATIENCE_S):
        while (await calls.get(f"/sessions/{session_id}")).json()["title"] != title:
            await asyncio.sleep(0.02)
    await asyncio.sleep(0.1)
    assert (await calls.get(f"/sessions/{session_id}")).json()["title"] == title


@pytest.mark.parametrize(
    ("agent_id", "status"), [("assistant", "ok"), ("silent", "ok"), ("ends-on-tool", "ok"), ("failing", "error")]
)
async def test_a_session_is_named_however_its_first_exchange_ends(
    server: RunningServer, agent_id: str, status: str
) -> None:
    async with chat(server.address) as client:
        events = await client.ask(MESSAGE, agent_id=agent_id)
        assert events[-1]["status"] == status
        assert events[-1]["session"]["title"] == MESSAGE
        assert await title_after_the_end(client) == TITLE


async def test_a_session_whose_first_exchange_is_stopped_is_named(server: RunningServer) -> None:
    async with chat(server.address) as client:
        message = "count down slowly from 500"
        started = await client.running(message, words=1)
        await client.send({"type": "stop", "session_id": started["session_id"]})
        assert (await client.until("final"))["status"] == "stopped"
        assert await title_after_the_end(client) == "Count Down Slowly 500"


async def test_a_session_that_waits_for_a_person_is_named_meanwhile(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.send({"message": MESSAGE, "agent_id": "asking"})
        await client.until("awaiting_human")
        assert await title_after_the_end(client) == TITLE


async def test_a_session_that_is_asked_over_sse_is_named(server: RunningServer) -> None:
    async with rest(server) as calls:
        opened = (await calls.post("/sessions", json={})).json()
        await calls.post(f"/sessions/{opened['id']}/messages", json={"content": MESSAGE})
        await titled(calls, opened["id"], TITLE)


@pytest.mark.parametrize("agent_id", ["assistant", "failing"])
async def test_a_name_that_a_user_has_given_stays(server: RunningServer, agent_id: str) -> None:
    async with rest(server) as calls, chat(server.address) as client:
        opened = (await calls.post("/sessions", json={"title": MESSAGE, "agent_id": agent_id})).json()
        await client.ask(MESSAGE, session_id=opened["id"])
        await titled(calls, opened["id"], MESSAGE)


async def test_a_session_that_a_server_leaves_unnamed_is_named_by_the_next(tmp_path: Path) -> None:
    """The first server is told to stop while the exchange runs, so that it ends it and names nothing."""
    async with running_server(tmp_path, agents=AGENTS) as server, chat(server.address) as client:
        session_id = (await client.running("count down slowly from 500", words=1))["session_id"]
    async with running_server(tmp_path, agents=AGENTS) as server, rest(server) as calls, chat(server.address) as client:
        assert (await calls.get(f"/sessions/{session_id}")).json()["title"] == "count down slowly from 500"
        await client.ask(MESSAGE, session_id=session_id)
        await titled(calls, session_id, TITLE)


@pytest.mark.parametrize(
    ("titles", "title"), [({"enabled": False}, MESSAGE), ({"model": "small"}, TITLE), ({"model": None}, MESSAGE)]
)
async def test_the_settings_say_whether_and_by_which_model_sessions_are_named(
    tmp_path: Path, titles: dict[str, Any], title: str
) -> None:
    """The default model is too slow for a title."""
    models = {
        "default": {"model": "offline", "options": {"words_per_second": 0.001}},
        "small": FAST["models"]["default"],
    }
    settings = {"titles": titles, "models": models}
    async with running_server(tmp_path, agents=AGENTS, settings=settings) as server, chat(server.address) as client:
        events = await client.ask(MESSAGE, agent_id="silent")
        async with rest(server) as calls:
            await titled(calls, events[-1]["session"]["id"], title)
            await asyncio.sleep(0.3)
            await titled(calls, events[-1]["session"]["id"], title)


async def test_an_unknown_model_for_titles_is_found_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"titles\.model.*there is no model 'other' in models"):
        async with running_server(tmp_path, settings={"titles": {"model": "other"}}):
            pass
