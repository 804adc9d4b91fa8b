"""Agents that fail in a server of its own process: the server lives, and its log is readable."""

import asyncio
import json
import os
import pty
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from support.chat_client import chat, check_exchange, final_text
from support.quitting_agents import RAISED, write_catalog
from support.server_process import serving


async def test_what_ends_a_process_ends_only_the_exchange_of_its_agent(tmp_path: Path) -> None:
    catalog, elsewhere = write_catalog(tmp_path), tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with AsyncExitStack() as opened:
        server = await opened.enter_async_context(serving("--catalog", catalog, cwd=elsewhere))
        client, other = [await opened.enter_async_context(chat(server.address)) for _ in range(2)]
        await other.send({"message": "count down slowly from 60"})
        await other.until("delta")
        for raised in RAISED:
            for place in ("loop", "task", "thread"):
                events = await client.ask(f"{raised} in the {place}", agent_id="quitting")
                check_exchange(events)
                error = events[-1]["error"]
                assert (events[-1]["status"], error["code"]) == ("error", "internal")
                if raised != "generator":
                    # Python makes a RuntimeError of its own of a GeneratorExit in a coroutine.
                    assert error["detail"]["type"] == RAISED[raised].__name__
                    assert "quitting_agents.py:" in error["detail"]["where"]
                events = await client.ask("go on", agent_id="quitting", session_id=events[0]["session_id"])
                assert final_text(events) == "still here"
        for agent_id in ("quits-at-start", "quitting-factory"):
            error = (await client.ask("hello", agent_id=agent_id))[-1]["error"]
            assert (error["code"], error["detail"]["type"]) == ("agent_unavailable", "KeyboardInterrupt")
        assert (await other.until("final"))["status"] == "ok", "other exchanges go on"
        assert "Traceback" not in server.stderr
        assert await server.stop(signal.SIGINT) == 0, "a person's Ctrl-C still ends it"


@pytest.mark.parametrize(
    ("form", "is_terminal", "is_for_people"),
    [("auto", True, True), ("auto", False, False), ("console", False, True), ("json", True, False)],
)
async def test_the_log_is_for_people_on_a_terminal_and_json_otherwise(
    tmp_path: Path, form: str, is_terminal: bool, is_for_people: bool
) -> None:
    catalog = write_catalog(tmp_path)
    ours, theirs = pty.openpty() if is_terminal else os.pipe()
    os.set_blocking(ours, False)
    environment = {"AGENTIC_LOG__FORMAT": form}
    async with serving("--catalog", catalog, cwd=tmp_path, environment=environment, stderr=theirs) as server:
        os.close(theirs)
        async with chat(server.address) as client:
            await client.ask("base in the loop", agent_id="quitting")
        written = ""
        while "exchange ended" not in written:
            try:
                written += os.read(ours, 65_536).decode()
            except BlockingIOError:
                await asyncio.sleep(0.01)
        assert await server.stop() == 0
    os.close(ours)
    lines = [line.rstrip("\r") for line in written.splitlines()]
    if not is_for_people:
        failure = next(line for line in map(json.loads, filter(None, lines)) if line["message"] == "exchange failed")
        assert "quitting_agents.py:" in failure["where"]
        return
    [begin] = [number for number, line in enumerate(lines) if "exchange failed" in line]
    assert "error" in lines[begin] and "where=quitting_agents.py:" in lines[begin]
    story = lines[begin + 1 : begin + 60]
    assert any(line == "  caused by BaseException" for line in story)
    assert any("quitting_agents.py:" in line and line.endswith(": raise raised") for line in story)
