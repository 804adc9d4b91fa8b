"""Conversations of this door on several instances of one MongoDB, and over a restart."""

import asyncio
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import openai
import pytest
from support.approval_agents import NOTES_VARIABLE
from support.rest_client import rest
from support.running_server import RunningServer, running_server
from transports.openai.conftest import AGENTS, client_of
from transports.openai.test_chat_completions import told, user
from transports.openai.test_people import ASK, TO_ANN, Conversation, sent


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(NOTES_VARIABLE, str(tmp_path / "notes"))
    return Path(os.environ[NOTES_VARIABLE])


async def test_what_one_instance_asks_is_answered_on_another(mongodb_url: str, tmp_path: Path, notes: Path) -> None:
    async with AsyncExitStack() as stack:
        here, there = [await opened(stack, tmp_path / name, mongodb_url) for name in ("here", "there")]
        asking, deciding = [await stack.enter_async_context(client_of(each, "ann")) for each in (here, there)]
        talk = Conversation(asking, "approving", "mails")
        await talk.say(ASK)
        other = Conversation(deciding, "approving", "mails")
        other.messages = talk.messages[:]
        assert (await other.answer("approve")).content == "sent to ann@example.org"
        with pytest.raises(openai.ConflictError):
            await talk.answer("reject")
        first = await asking.responses.create(model="seeing", input="one")
        second = await deciding.responses.create(model="seeing", input="two", previous_response_id=first.id)
        assert second.output_text == "one | one | two"
        asks = [
            told(client, "echo", user("hello"), metadata={"conversation_id": "new"}) for client in (asking, deciding)
        ]
        outcomes = await asyncio.gather(*asks, return_exceptions=True)
        assert "echo: hello" in outcomes and {type(each) for each in outcomes} <= {str, openai.ConflictError}
        async with rest(here, "dev:ann") as http:
            assert len((await http.get("/sessions")).json()["sessions"]) == 3
    assert sent(notes) == [TO_ANN]


async def opened(stack: AsyncExitStack, directory: Path, url: str) -> RunningServer:
    directory.mkdir()
    settings: dict[str, Any] = {"store": {"url": url}}
    return await stack.enter_async_context(running_server(directory, agents=AGENTS, settings=settings))


async def test_what_waits_is_answered_after_a_restart(tmp_path: Path, notes: Path) -> None:
    async with running_server(tmp_path, agents=AGENTS) as server, client_of(server, "ann") as client:
        talk = Conversation(client, "approving", "mails")
        await talk.say(ASK)
    async with running_server(tmp_path, agents=AGENTS) as server, client_of(server, "ann") as client:
        again = Conversation(client, "approving", "mails")
        again.messages = talk.messages
        assert (await again.answer("approve")).content == "sent to ann@example.org"
    assert sent(notes) == [TO_ANN]
