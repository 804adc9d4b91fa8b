"""`chat` on a terminal: answers as they come, Ctrl-C, a lost connection."""

from pathlib import Path

from support import paced_agent
from support.approval_agents import calls, runs
from support.running_server import RunningServer
from support.tcp_line import line_to
from support.terminal_chat import on_terminal

from agentic_backend.offline.phrases import lorem

CTRL_C, CTRL_D = "\x03", "\x04"


async def test_ctrl_c_stops_an_answer_and_leaves_at_the_prompt(server: RunningServer, tmp_path: Path) -> None:
    async with on_terminal("--url", server.address, cwd=tmp_path) as chat:
        await chat.until(f"assistant at {server.address}")
        await chat.until("> ")
        chat.type("hang after 5 tokens\r")
        await chat.until("hang after 5 tokens\n")
        await chat.until("Lorem ipsum")
        chat.type(CTRL_C)
        await chat.until("(stopped)")
        await chat.until("> ")
        chat.type("repeat after me: \\\r")
        await chat.until(". ")
        chat.type("still here\r")
        await chat.until("\nstill here")
        await chat.until("> ")
        chat.type(CTRL_C)
        assert await chat.ended() == 0
    assert "Traceback" not in chat.shown


async def test_the_lines_of_a_paste_are_one_ask(server: RunningServer, tmp_path: Path) -> None:
    async with on_terminal("--url", server.address, cwd=tmp_path) as chat:
        await chat.until("> ")
        chat.type("repeat after me: \x1b[200~one\nzwei \u00e4\u6f22\n/quit\x1b[201~")
        await chat.until("/quit")
        chat.type(" three\r")
        await chat.until("one\nzwei \u00e4\u6f22\n/quit three\n")
        await chat.until("> ")
        chat.type("/history\r")
        await chat.until("> ")
        chat.type(CTRL_D)
        assert await chat.ended() == 0
    assert chat.shown.count("user: ") + chat.shown.count("you: ") == 1
    assert "Traceback" not in chat.shown


async def test_a_second_ctrl_c_leaves_an_answer_that_has_not_ended(server: RunningServer, tmp_path: Path) -> None:
    pace = paced_agent.begin()
    async with line_to(server.address) as line, on_terminal("paced", "--url", line.address, cwd=tmp_path) as chat:
        await chat.until("> ")
        chat.type(f"{paced_agent.ASK}\r")
        # One that has not begun ends by itself.
        pace.write(5)
        await chat.until(paced_agent.first_words(4))
        # The server does not hear of the stop.
        await line.hold()
        chat.type(CTRL_C)
        await chat.until("no connection")
        chat.type(CTRL_C)
        assert await chat.ended() == 130
    assert "Traceback" not in chat.shown


async def test_words_are_shown_as_they_come_also_after_a_lost_connection(server: RunningServer, tmp_path: Path) -> None:
    pace = paced_agent.begin()
    async with line_to(server.address) as line, on_terminal("paced", "--url", line.address, cwd=tmp_path) as chat:
        await chat.until("> ")
        chat.type(f"{paced_agent.ASK}\r")
        pace.write(5)
        await chat.until(paced_agent.first_words(4))
        await line.hold()
        await chat.until("no connection")
        line.release()
        pace.finish()
        await chat.until("connected again")
        await chat.until("> ")
        chat.type(CTRL_D)
        assert await chat.ended() == 0
    words = lorem(paced_agent.WORDS).split()
    assert words[-1] in chat.shown.split()
    assert "Traceback" not in chat.shown


async def test_an_approval_is_shown_without_what_a_terminal_obeys(
    server: RunningServer, notes: Path, tmp_path: Path
) -> None:
    async with on_terminal("approving", "--url", server.address, cwd=tmp_path) as chat:
        await chat.until("> ")
        chat.type(calls(("send_email", {"to": "ann\x1b[2Jbob"})) + "\r")
        await chat.until("Approve send_email?")
        await chat.until("y = yes, n = no, e = other arguments: ")
        chat.type("y\r")
        # The graph's border has taken the escape out.
        await chat.until("sent to ann\ufffd[2Jbob")
        await chat.until("> ")
        chat.type(calls(("send_email", {"to": "eve"})) + "\r")
        await chat.until("y = yes")
        chat.type(CTRL_C)
        await chat.until("(stopped)")
        await chat.until("> ")
        chat.type("/quit\r")
        assert await chat.ended() == 0
    assert [args["to"] for _, args in runs(notes)] == ["ann\ufffd[2Jbob"]
    assert "\x1b[2J" not in chat.shown
    [told] = [line for line in chat.shown.splitlines() if "Nobody decides" in line]
    assert "other arguments" not in told, "it stands beside the prompt"
