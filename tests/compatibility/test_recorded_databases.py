"""Today's server opens the databases of the release before: all is read word for word, and everything goes on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from compatibility.contents import ANN, BOB, SETTINGS, answer_of, http_of, resume, write_files
from compatibility.databases import FOLDER, recorded, restore_mongodb, restore_sqlite
from compatibility.served import AGENTS
from compatibility.transcripts import Json, Names
from services.mongodb import ON_MONGODB, fresh_database, server_url
from support.approval_agents import NOTES_VARIABLE, runs
from support.chat_client import PATIENCE_S, ChatClient, chat, final_text, text_of
from support.rest_client import metric_at, sse_events
from support.running_server import RunningServer, running_server

from agentic_backend.stores.tables import APPLICATION_RECORDS, MODULE_ERRORS, SESSION_APPLICATION_RECORDS, TABLES

VERSIONS = sorted(path.name for path in FOLDER.iterdir())
KINDS = [
    pytest.param((version, kind), marks=marks, id=f"{version}-{kind}")
    for version in VERSIONS
    for kind, marks in [("sqlite", ()), ("mongodb", ON_MONGODB[0].marks)]
]


UNUSED = [
    *(table.name for table in (MODULE_ERRORS, APPLICATION_RECORDS, SESSION_APPLICATION_RECORDS)),
    *("admin_reads", "items", "user_deletions", "extractions", "summaries", "activities"),
]
"""No module has failed or extracted, no application keeps records, no admin has read, no agent keeps items or hands
over, no history was long.
"""
UNUSED += ["partial_pieces", "agent_versions", "journal_marks"]
"""No answer was long, and 0.1.0 kept no agents in its database, and noted no deletions."""


class Old(NamedTuple):
    """A server of today on a restored database, and what was recorded with it."""

    server: RunningServer
    ids: Json
    reads: list[Json]
    notes: Path


@pytest.fixture(params=KINDS)
async def old(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Old]:
    version, kind = request.param
    told = recorded(version, kind)
    monkeypatch.setenv(NOTES_VARIABLE, str(tmp_path / "notes"))
    write_files(tmp_path)
    settings: dict[str, Any] = SETTINGS | {"modules": {"file": str(tmp_path / "modules.yaml")}}
    async with AsyncExitStack() as stack:
        if kind == "sqlite":
            await asyncio.to_thread(restore_sqlite, version, tmp_path / "data")
        else:
            [parameter] = ON_MONGODB[0].values
            url = await stack.enter_async_context(fresh_database(server_url(str(parameter), request)))
            await asyncio.to_thread(restore_mongodb, version, url)
            settings |= {"store": {"url": url}}
        server = await stack.enter_async_context(running_server(tmp_path, agents=AGENTS, settings=settings))
        yield Old(server, told["ids"], told["reads"], tmp_path / "notes")


@asynccontextmanager
async def ann(old: Old) -> AsyncIterator[ChatClient]:
    async with chat(old.server.address, token=ANN) as client:
        yield client


async def exchange(old: Old, name: str, token: str = ANN) -> Json:
    async with http_of(old.server.address, token) as http:
        found: Json = (await http.get(f"/exchanges/{old.ids[name]}")).json()
    return found


def test_what_is_recorded_has_exchanges_in_every_status_and_rows_of_almost_every_table() -> None:
    for version in VERSIONS:
        for kind, lines in (("sqlite", "chat.sql"), ("mongodb", "chat.jsonl")):
            answers = [read["answer"] for read in recorded(version, kind)["reads"] if "/exchanges/" in read["path"]]
            statuses = {answer["status"] for answer in answers}
            assert statuses == {"ok", "error", "stopped", "blocked", "interrupted", "awaiting_human"}
            text = (FOLDER / version / lines).read_text()
            rows = 'INSERT INTO "%s"' if kind == "sqlite" else '{"collection": "%s", "document"'
            lacking = {table.name for table in TABLES if rows % table.name not in text}
            assert lacking <= set(UNUSED)


async def test_everything_is_read_word_for_word(old: Old) -> None:
    assert len(old.reads) > 50
    names, different = Names(), dict[str, list[str]]()
    async with http_of(old.server.address) as http:
        for read in old.reads:
            response = await http.get(read["path"], params=read["params"])
            assert response.status_code == read["status"], read["path"]
            if found := names.differences(read["answer"], answer_of(response)):
                different[read["path"]] = found
    assert different == {}


async def test_what_waits_is_decided_and_runs_once(old: Old) -> None:
    async with ann(old) as client:
        waiting = await exchange(old, "choosing")
        [request] = waiting["pending"]["requests"]
        await client.send(resume(named(waiting), **{request["interrupt_id"]: "l"}))
        final = await client.until("final")
        assert (final["exchange_id"], final_text([final])) == (old.ids["choosing"], "You went l.")
        waiting = await exchange(old, "approving")
        [request] = waiting["pending"]["requests"]
        await client.send(resume(named(waiting), request))
        final = await client.until("final", exchange_id=old.ids["approving"])
        assert final_text([final]) == "sent to ann@example.org; deleted a.txt"
    assert sorted(name for name, _ in runs(old.notes)) == ["delete_file", "send_email"]


def named(waiting: Json) -> Json:
    return {"session_id": waiting["session_id"], "exchange_id": waiting["id"]}


async def test_what_was_interrupted_goes_on_from_its_checkpoint(old: Old) -> None:
    async with http_of(old.server.address) as http, asyncio.timeout(PATIENCE_S):
        async with http.stream("POST", f"/exchanges/{old.ids['interrupted']}/resume") as response:
            events = [event async for event in sse_events(response)]
    assert events[0]["resumes"] == old.ids["interrupted"]
    assert events[-1]["status"] == "ok", events[-1]


async def test_sessions_and_branches_go_on_with_their_history(old: Old) -> None:
    async with ann(old) as client:
        for name in ("talk", "branch"):
            events = await client.ask("what do you remember?", session_id=old.ids[name])
            assert "under the mat" in final_text(events)


async def test_what_the_old_server_left_running_ends_with_its_text(old: Old) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (left := await exchange(old, "left", BOB))["status"] == "running":
            await asyncio.sleep(0.1)
    assert left["status"] == "interrupted"
    async with http_of(old.server.address, BOB) as http:
        messages = (await http.get(f"/sessions/{left['session_id']}/messages")).json()["messages"]
    [answer] = [message for message in messages if message["role"] == "assistant"]
    assert text_of(answer).startswith("1000")


async def test_the_database_is_brought_up_to_date_meanwhile(old: Old) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await metric_at(old.server.internal, "chat_store_upgrades_left"):
            await asyncio.sleep(0.1)
