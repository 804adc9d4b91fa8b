"""Chat profiles over every door: who may name one, what a session keeps, and what is refused."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.chat_client import ChatClient, chat
from support.rest_client import error_of, rest
from support.running_server import ASSISTANT, RunningServer, running_server

BRIEF = {**ASSISTANT, "id": "brief", "default": False, "chat": {"profile": "compact"}}
NAMES = ["compact", "default", "long_context", "own"]


@pytest.fixture
async def profiled(tmp_path: Path) -> AsyncIterator[RunningServer]:
    file = tmp_path / "chat_profiles.yaml"
    own = {"description": "Ours", "max_history_turns": 3}
    file.write_text(yaml.safe_dump({"profiles": {"own": own}, "default_profile": "own"}))
    async with running_server(tmp_path, agents=[BRIEF], settings={"chat_profiles": {"file": str(file)}}) as server:
        yield server


async def refusal(client: ChatClient, **fields: Any) -> str:
    await client.send({"message": "hello", **fields})
    refused = await client.until("error")
    assert refused["code"] == "bad_frame"
    content: str = refused["content"]
    return content


def is_told(content: str) -> bool:
    return content.startswith("chat_profile: ") and content.endswith(", ".join(NAMES))


async def test_an_unknown_profile_is_refused_at_every_door_with_those_there_are(profiled: RunningServer) -> None:
    async with chat(profiled.address) as client, chat(profiled.address, subprotocols=None) as classic:
        assert is_told(await refusal(client, chat_profile="brief"))
        assert is_told(await refusal(client, chat_profile="brief", mode="query"))
        assert is_told(await refusal(classic, chat_profile="brief"))
    async with rest(profiled) as http:
        session = (await http.post("/sessions")).json()
        for path, body in (
            ("/sessions", {}),
            ("/chatbot/session", {}),
            (f"/sessions/{session['id']}/messages", {"content": "hello"}),
        ):
            response = await http.post(path, json={**body, "chat_profile": "brief"})
            error = error_of(response)
            assert (response.status_code, error["code"]) == (400, "bad_frame") and is_told(error["content"])


async def test_a_session_keeps_the_profile_that_is_named_else_the_agents_else_the_default(
    profiled: RunningServer,
) -> None:
    async with chat(profiled.address) as client, rest(profiled) as http:
        for fields, kept in (
            ({"chat_profile": "long_context", "agent_id": "brief"}, "long_context"),
            ({"agent_id": "brief"}, "compact"),
            ({}, "own"),
        ):
            events = await client.ask("hello", **fields)
            assert events[-1]["session"]["chat_profile"] == kept
            assert (await http.post("/sessions", json=fields)).json()["chat_profile"] == kept


async def test_an_ask_in_a_session_may_name_another_profile_for_itself(profiled: RunningServer) -> None:
    async with chat(profiled.address) as client:
        session_id = (await client.ask("hello"))[-1]["session"]["id"]
        events = await client.ask("again", session_id=session_id, chat_profile="compact")
        assert (events[-1]["status"], events[-1]["session"]["chat_profile"]) == ("ok", "own")


async def test_clients_find_the_profiles_beside_the_agents(profiled: RunningServer) -> None:
    async with rest(profiled) as http:
        found = (await http.get("/agents")).json()["chat_profiles"]
    assert [profile["name"] for profile in found] == NAMES
    assert [profile for profile in found if profile["default"]] == [
        {"name": "own", "description": "Ours", "default": True}
    ]
