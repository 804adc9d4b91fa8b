"""`agentic-backend explain`: one exchange's story from the store and the log, beside the server that wrote them."""

import asyncio
import re
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.chat_client import chat, final_text
from support.log_lines import log_lines, logging_as_before
from support.running_server import running_server
from support.server_process import command, serving

from agentic_backend.cli import main

QUESTION = "tell me of quokkaberries"


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    return tmp_path


async def status_of(*arguments: object) -> int:
    """Explain in this process, whose output a test captures; the exit status."""
    with logging_as_before():
        return await asyncio.to_thread(main, ["explain", *map(str, arguments)])


async def asked(directory: Path, **fields: Any) -> list[dict[str, Any]]:
    async with running_server(directory) as server, chat(server.address) as client:
        return await client.ask(QUESTION, **fields)


async def test_it_tells_the_story_in_order_and_no_texts_beside_a_running_server(
    directory: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with serving(cwd=directory) as server:
        async with chat(server.address, additional_headers={"X-Request-Id": "order-17"}) as client:
            events = await client.ask(QUESTION)
            exchange_id, session_id = events[0]["exchange_id"], events[0]["session_id"]
            async with command("explain", exchange_id, cwd=directory) as beside:
                assert await beside.ended() == 0, beside.stderr
            assert "exchange ends  status=ok" in beside.stdout
            again = await client.ask("something else", session_id=session_id)
            assert again[-1]["status"] == "ok"
        await server.stop()
    # A line that is none, one of another exchange with this one's id in a field.
    noise = ["not JSON", '{"time":"2026-01-01T00:00:00+00:00","message":"other","exchange_id":"x","session_id":"%s"}']
    log = directory / "server.log"
    log.write_text(server.stderr + "\n".join(noise) % exchange_id + "\n")
    assert await status_of(exchange_id, "--log", log) == 0
    told = capfd.readouterr().out
    head, _, timeline = told.partition("\n\n")
    assert re.search(rf"^session: +{session_id}$", head, re.MULTILINE)
    assert re.search(r"^request: +order-17$", head, re.MULTILINE) and re.search(r"^status: +ok$", head, re.MULTILINE)
    assert re.search(r"^trace: +[0-9a-f]{32}$", head, re.MULTILINE)
    lines = timeline.splitlines()
    order = ["exchange begins", "message: user/final", "message: assistant/final", "exchange ends  status=ok"]
    places = [next(place for place, line in enumerate(lines) if what in line) for what in order]
    assert places == sorted(places)
    for what in ("first token", "model: ", "log: exchange started", "log: exchange ended"):
        assert what in timeline
    times = [line[:12] for line in lines]
    assert times == sorted(times)
    assert timeline.count("message: user") == 1, "nothing of the session's other exchange"
    assert "quokka" not in told and "log: other" not in timeline
    assert final_text(events) not in told


async def test_texts_are_shown_if_asked_for(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    events = await asked(directory)
    assert await status_of(events[0]["exchange_id"]) == 0
    assert QUESTION not in capfd.readouterr().out
    assert await status_of(events[0]["exchange_id"], "--content") == 0
    assert QUESTION in capfd.readouterr().out


async def test_a_query_has_its_figures_alone(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    events = await asked(directory, mode="query")
    assert await status_of(events[0]["exchange_id"]) == 0
    told = capfd.readouterr().out
    assert "none, it was a query" in told and "query ends  status=ok" in told


async def test_what_it_cant_tell_is_a_clear_error(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async def reason(*arguments: object) -> str:
        capfd.readouterr()
        assert await status_of(*arguments) == 1
        [line] = log_lines(capfd.readouterr().err)
        assert (line["level"], line["message"]) == ("error", "exchange can't be explained")
        return str(line["reason"])

    assert "there is no such file" in await reason("unknown")
    events = await asked(directory)
    assert "there is no exchange 'unknown'" in await reason("unknown")
    assert "none.log" in await reason(events[0]["exchange_id"], "--log", directory / "none.log")
    with closing(sqlite3.connect(directory / "data" / "chat.sqlite3")) as database:
        database.execute("PRAGMA user_version = 1")
        assert "an older release has written it" in await reason(events[0]["exchange_id"])
        assert database.execute("PRAGMA user_version").fetchone() == (1,), "it may be in use"
