"""A client of this door whose requests come to several instances of one MongoDB."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from support.approval_agents import NOTES_VARIABLE, calls
from support.running_server import RunningServer, running_server
from transports.mcp.conftest import AGENTS
from transports.mcp.test_protocol import asking, http_of, introduced, streamed


async def opened(stack: AsyncExitStack, directory: Path, url: str) -> RunningServer:
    directory.mkdir()
    settings: dict[str, Any] = {"store": {"url": url}}
    return await stack.enter_async_context(running_server(directory, agents=AGENTS, settings=settings))


async def test_a_form_of_one_instance_is_answered_on_another(
    mongodb_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NOTES_VARIABLE, str(tmp_path / "notes"))
    email = calls(("send_email", {"to": "ann@example.org"}))
    async with AsyncExitStack() as stack:
        here, there = [await opened(stack, tmp_path / name, mongodb_url) for name in ("here", "there")]
        asker, other = [await stack.enter_async_context(http_of(each, "ann")) for each in (here, there)]
        await introduced(asker)
        other.headers["Mcp-Session-Id"] = asker.headers["Mcp-Session-Id"]
        async with streamed(asker, asking("approving", email, 5)) as events:
            [*_, (last, form)] = [event async for event in _until_form(events)]
        result = {"action": "accept", "content": {"decision": "approve"}}
        taken = await other.post("/mcp", json={"jsonrpc": "2.0", "id": form["id"], "result": result})
        assert taken.status_code == 202
        # The stream of the one goes on at the other.
        rest_of_it = await other.get("/mcp", headers={"Last-Event-ID": last})
        assert "sent to ann@example.org" in rest_of_it.text and '"id":5' in rest_of_it.text


async def test_a_form_of_before_a_restart_is_answered_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NOTES_VARIABLE, str(tmp_path / "notes"))
    async with running_server(tmp_path, agents=AGENTS) as server, http_of(server, "ann") as http:
        await introduced(http)
        session = http.headers["Mcp-Session-Id"]
        async with streamed(http, asking("name", "go", 5)) as events:
            [*_, (last, form)] = [event async for event in _until_form(events)]
    async with running_server(tmp_path, agents=AGENTS) as server, http_of(server, "ann") as http:
        http.headers["Mcp-Session-Id"] = session
        result = {"action": "accept", "content": {"answer": "Ann"}}
        assert (await http.post("/mcp", json={"jsonrpc": "2.0", "id": form["id"], "result": result})).status_code == 202
        assert "You said" in (await http.get("/mcp", headers={"Last-Event-ID": last})).text


async def _until_form(events: AsyncIterator[tuple[str, Any]]) -> AsyncIterator[tuple[str, Any]]:
    async for place, data in events:
        yield place, data
        if data is not None and data.get("method") == "elicitation/create":
            return
