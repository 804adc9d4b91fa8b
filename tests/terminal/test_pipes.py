"""`chat` through pipes: a line is a question, answers go to standard output, all else to standard error."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from support.approval_agents import calls, runs
from support.running_server import RunningServer, running_server
from support.server_process import PATIENCE_S
from support.signing_realm import CLIENT, signing_realm
from support.terminal_chat import piped


async def test_each_line_is_asked_in_one_session(server: RunningServer, tmp_path: Path) -> None:
    lines = "What is 12*34?\n\nwhat did I say first?\n//help\n"
    ended = await piped("--url", server.address, lines=lines, cwd=tmp_path)
    answers = ended.output.splitlines()
    assert answers[0] == "12*34 = 408."
    assert "What is 12*34?" in answers[1]
    assert '→ calculate(expression="12*34")' in ended.errors
    assert "12*34 = 408" in ended.errors
    # Not the client's own help.
    assert "/agents" not in ended.output
    assert ended.status == 0


async def test_an_ask_that_fails_is_told_and_the_next_one_is_asked(server: RunningServer, tmp_path: Path) -> None:
    ended = await piped("--url", server.address, lines="fail at once\nrepeat after me: on\n", cwd=tmp_path)
    assert ended.output == "on\n"
    assert "(error)" in ended.errors
    assert ended.errors.count("failed; try again in a moment.") == 1
    assert ended.status == 1


async def test_nothing_that_a_terminal_obeys_is_written(server: RunningServer, tmp_path: Path) -> None:
    lines = "repeat after me: \x1b[31mred\x1b]0;title\x07 \u202egreen\n/history\n"
    ended = await piped("--url", server.address, lines=lines, cwd=tmp_path)
    assert "\\u{1b}[31mred\\u{1b}]0;title\\u{7} \\u{202e}green" in ended.output
    assert not {"\x1b", "\x07", "\u202e"} & set(ended.output + ended.errors)
    assert ended.status == 0


async def test_commands(server: RunningServer, tmp_path: Path) -> None:
    lines = [
        *("/history", "/usage", "repeat after me: one", "/usage", "/history", "/export out.md", "/export out.json"),
        *("/export out.md", "/nonsense", "/agents nobody", "/agents choosing", "/agents", "/new assistant"),
        *("what did I say first?", "/help", "/quit", "repeat after me: never"),
    ]
    ended = await piped("--url", server.address, lines="\n".join(lines), cwd=tmp_path)
    output = ended.output
    assert output.startswith("There is nothing yet.\nlast answer: no tokens are known\n")
    assert "written tokens" in output
    assert "you: repeat after me: one\nassistant: one\n" in output
    assert "repeat after me: one" in (tmp_path / "out.md").read_text()
    assert json.loads((tmp_path / "out.json").read_text())["messages"]
    assert "out.md: File exists\n" in ended.errors
    assert "There is no /nonsense: /help lists the commands." in ended.errors
    assert "There is no agent nobody; there are: assistant, approving" in ended.errors
    assert "* choosing: choosing" in output
    assert "\n  approving: approving" in output
    assert "repeat after me: one" not in output.partition("* choosing")[2]
    assert "/export [FILE]" in output
    assert "never" not in output
    assert ended.status == 1


async def test_calls_are_approved_changed_and_rejected(server: RunningServer, notes: Path, tmp_path: Path) -> None:
    first, second = calls(("send_email", {"to": "ann"})), calls(("delete_file", {"path": "a"}))
    lines = [first, "y", first, "e", "[]", "no JSON", '{"to": "bob"}', second, "e", "n", "not mine"]
    ended = await piped("approving", "--url", server.address, lines="\n".join(lines), cwd=tmp_path)
    approved, changed, *rejected = ended.output.splitlines()
    assert approved == "sent to ann"
    assert 'send_email with arguments {"to": "bob"}' in changed
    assert "not mine" in " ".join(rejected)
    assert [(name, args["to"]) for name, args in runs(notes)] == [("send_email", "ann"), ("send_email", "bob")]
    assert "Approve send_email?" in ended.errors
    assert "An email can't be taken back." in ended.errors
    assert "That is no JSON" in ended.errors
    assert ended.status == 0


async def test_what_cannot_be_sent_is_asked_again(server: RunningServer, notes: Path, tmp_path: Path) -> None:
    first = calls(("send_email", {"to": "ann"}))
    lines = [first, "n", "why " * 2_000, "e", "[" * 200_000, '{"to": "\\ud800"}', "y", "/export ~nobody-here/a.md"]
    lines += ["/export a\0b", "/usage"]
    ended = await piped("approving", "--url", server.address, lines="\n".join(lines), cwd=tmp_path)
    assert "This can't be decided: String should have at most 4000 characters" in ended.errors
    assert "That is no JSON" in ended.errors
    assert "This can't be decided: NaN, an infinity, an integer beyond 64 bits or half a character" in ended.errors
    assert "Could not determine home directory." in ended.errors
    assert "embedded null byte" in ended.errors
    assert [args["to"] for _, args in runs(notes)] == ["ann"]
    assert "session: " in ended.output
    assert "Traceback" not in ended.errors and ended.status == 1


async def test_where_nobody_decides_the_exchange_is_stopped(server: RunningServer, notes: Path, tmp_path: Path) -> None:
    lines = calls(("send_email", {"to": "ann"}))
    ended = await piped("approving", "--url", server.address, lines=lines, cwd=tmp_path)
    assert (ended.status, runs(notes)) == (1, [])
    assert "Nobody decides: stopping." in ended.errors
    assert "(stopped)" in ended.errors


async def test_questions_are_answered_in_each_form(server: RunningServer, tmp_path: Path) -> None:
    lines = [
        *("go", "7", "2"),
        *("/agents name", "go", "Ann"),
        *("/agents yes_or_no", "go", "perhaps", "y"),
        *("/agents colour", "go", "green"),
        *("/agents booking", "go", "Ann", "two", "2", "n", "", "", ""),
        *("/agents booking", "go", "Ann", "9", "y", "first", '["Bern"]', "soon", "Ann", "4", "y", "", "", "soon"),
    ]
    ended = await piped("size", "--url", server.address, lines="\n".join(lines), cwd=tmp_path)
    said = [json.loads(line.removeprefix("You said ")) for line in ended.output.splitlines()]
    assert said[:4] == ["l", "Ann", True, "green"]
    assert [said[4][name] for name in ("traveller", "seats", "window", "note")] == ["Ann", 2, False, None]
    assert [said[5][name] for name in ("traveller", "seats", "window", "note")] == ["Ann", 4, True, "soon"]
    assert "Expected a number from 1 to 2." in ended.errors
    assert "Expected y or n." in ended.errors
    assert ended.status == 0


async def test_no_server_and_no_agent(server: RunningServer, tmp_path: Path) -> None:
    nobody = await piped("--url", "http://127.0.0.1:1", lines="hello\n", cwd=tmp_path)
    assert (nobody.status, nobody.output) == (1, "")
    assert "No server answers at http://127.0.0.1:1." in nobody.errors
    assert "no connection (ConnectionRefusedError: [Errno 111] Connection refused)" in nobody.errors
    unknown = await piped("nobody", "--url", server.address, lines="hello\n", cwd=tmp_path)
    assert (unknown.status, unknown.output) == (2, "")
    assert "There is no agent nobody" in unknown.errors
    wrong = await piped("--url", "somewhere", "--token-file", "absent", lines="hello\n", cwd=tmp_path)
    assert (wrong.status, wrong.output) == (2, "")
    assert "absent" in wrong.errors
    assert "Traceback" not in nobody.errors + unknown.errors + wrong.errors


async def test_the_token_comes_from_the_environment_or_a_file(tmp_path: Path) -> None:
    async with signing_realm() as realm:
        settings = {"auth": {"mode": "keycloak", "keycloak": {"realm_url": realm.url, "client_id": CLIENT}}}
        async with running_server(tmp_path, settings=settings) as server:
            address = ("--url", server.address)
            lines = "repeat after me: in\n"
            refused = await piped(*address, lines=lines, cwd=tmp_path, environment={"CHAT_TOKEN": "rubbish"})
            assert (refused.status, refused.output) == (1, "")
            assert "token" in refused.errors
            token = realm.sign()
            taken = await piped(*address, lines=lines, cwd=tmp_path, environment={"CHAT_TOKEN": token})
            assert (taken.status, taken.output) == (0, "in\n")
            (tmp_path / "token").write_text(f"{token}\n")
            read = await piped(*address, "--token-file", "token", lines=lines, cwd=tmp_path)
            assert (read.status, read.output) == (0, "in\n")
            assert token not in refused.errors + taken.errors + read.errors


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
async def test_a_stream_that_is_closed_ends_it_without_a_traceback(
    server: RunningServer, tmp_path: Path, closed: str
) -> None:
    chat = f"exec {sys.executable} -m agentic_backend chat --url {server.address} {closed}"
    process = await asyncio.create_subprocess_shell(
        chat,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=tmp_path,
    )
    async with asyncio.timeout(PATIENCE_S):
        output, errors = await process.communicate(b"repeat after me: one\n")
    assert process.returncode == 0
    assert b"Traceback" not in errors
    assert output == (b"one\n" if closed == "2>&-" else b"")
