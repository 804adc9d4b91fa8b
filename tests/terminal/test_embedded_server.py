"""`chat` without a URL: a server of the working directory's catalog, which ends with the client."""

import asyncio
import signal
from pathlib import Path

from support.process_agents import write_catalog
from support.processes import children, runs
from support.terminal_chat import PATIENCE_S, on_terminal, piped


async def gone(pid: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while runs(pid):
            await asyncio.sleep(0.05)


async def test_it_answers_from_the_catalog_and_keeps_what_was_said(tmp_path: Path) -> None:
    write_catalog(tmp_path)
    (tmp_path / "tmp").mkdir()
    lines = "repeat after me: one\n/agents counting\nrepeat after me: two\n"
    ended = await piped(lines=lines, cwd=tmp_path, environment={"TMPDIR": str(tmp_path / "tmp")})
    assert ended.output.splitlines() == ["one", "repeat after me: one|repeat after me: two"]
    assert ended.status == 0
    assert (tmp_path / "data").is_dir()
    assert not list((tmp_path / "tmp").glob("agentic-backend-chat-*"))


async def test_what_keeps_it_from_starting_is_told(tmp_path: Path) -> None:
    (tmp_path / "agents_catalog.yaml").write_text("agents: 7")
    ended = await piped(lines="hello\n", cwd=tmp_path)
    assert (ended.status, ended.output) == (1, "")
    assert "The server could not start" in ended.errors
    assert "agents_catalog.yaml:1" in ended.errors


async def test_ctrl_c_is_not_for_the_server_which_ends_even_with_a_client_that_is_killed(tmp_path: Path) -> None:
    write_catalog(tmp_path)
    async with on_terminal(cwd=tmp_path) as chat:
        await chat.until("> ")
        [server] = children(chat.process.pid)
        chat.type("hang after 5 tokens\r")
        await chat.until("Lorem ipsum")
        chat.type("\x03")
        await chat.until("(stopped)")
        await chat.until("> ")
        chat.type("repeat after me: on\r")
        await chat.until("\non")
        assert runs(server)
        chat.process.send_signal(signal.SIGKILL)
        await chat.ended()
        await gone(server)
