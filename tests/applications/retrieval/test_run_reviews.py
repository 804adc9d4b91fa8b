"""Modules look at runs as they look at an agent's conversations: at the question, passages, answer and history."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest_asyncio
import yaml
from pytest import mark
from support.collections_of_documents import BY_WORDS, FLOOD, PATH, collection, serving
from support.rest_client import error_of, plain_http
from support.running_server import FAST, RunningServer, running_server

pytestmark = mark.asyncio(loop_scope="module")

_PACKAGE = "agentic_backend.modules."


def module(name: str, class_path: str, **settings: Any) -> dict[str, Any]:
    return {"name": name, "class_path": _PACKAGE + class_path, "settings": settings}


MODULES = [
    module("blocked", "words:WordFilter", words=["zebra"], apply_to=["message"]),
    module("replaced", "words:WordFilter", words=["groundwater"], action="replace", apply_to=["response"]),
    module("pii", "pii:PiiRedaction", types=["email"], strategy="redact"),
    {**module("others", "words:WordFilter", words=["deductible"], apply_to=["message"]), "agents": ["plain"]},
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: Any) -> AsyncIterator[RunningServer]:
    directory = tmp_path_factory.mktemp("server")
    file = directory / "modules.yaml"
    file.write_text(yaml.safe_dump({"modules": MODULES}))
    applications = [{"class_path": PATH, "settings": BY_WORDS}]
    settings = {**FAST, "applications": applications, "modules": {"file": str(file)}}
    async with running_server(directory, agents=[{"id": "plain"}], settings=settings) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def client(server: RunningServer) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"authorization": "Bearer dev:ann"}
    async with plain_http(base_url=f"{server.address}/apps/retrieval", headers=headers, timeout=60) as client:
        await serving(client)
        yield client


async def ran(client: httpx.AsyncClient, query: str, **more: Any) -> httpx.Response:
    root = str(client.base_url).partition("/apps")[0]
    return await client.post(f"{root}/api/run", json={"query": query, **more})


async def test_what_a_module_blocks_is_no_turn(client: httpx.AsyncClient) -> None:
    first = (await ran(client, "Hello?", mode="chat")).json()
    refused = await ran(client, "What of a zebra?", mode="chat", session_id=first["session_id"])
    assert (refused.status_code, error_of(refused)["code"]) == (422, "blocked")
    root = str(client.base_url).partition("/apps")[0]
    session = (await client.get(f"{root}/api/chat/session/{first['session_id']}")).json()
    assert session["history"]["total_turns"] == 1 and "zebra" not in str(session)


async def test_what_modules_replace_is_stored_so_and_the_original_nowhere(
    server: RunningServer, client: httpx.AsyncClient
) -> None:
    await collection(client, "Terms", flood=FLOOD)
    answer = await ran(client, "Is groundwater covered? Tell ada@example.org", mode="chat")
    # Of the answer, too: a module is for answers alone.
    assert "never covered" in answer.json()["answer"]["text"] and "groundwater" not in answer.json()["answer"]["text"]
    root = str(client.base_url).partition("/apps")[0]
    session = (await client.get(f"{root}/api/chat/session/{answer.json()['session_id']}")).json()
    assert "[REDACTED_EMAIL]" in session["history"]["turns"][0]["query"]
    stored = b"".join(file.read_bytes() for file in server.data.glob("*.db*"))
    assert b"ada@example.org" not in stored


async def test_modules_are_those_of_the_agent_in_whose_place_it_is(client: httpx.AsyncClient) -> None:
    assert (await ran(client, "What is the deductible?")).status_code == 200
