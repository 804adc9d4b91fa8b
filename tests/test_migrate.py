"""`agentic-backend migrate`, as it is run: what it prints, and its exit status."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from support.chat_client import chat, text_of
from support.log_lines import log_lines, logging_as_before
from support.server_process import command, serving

from agentic_backend.cli import main


async def test_a_conversation_goes_on_in_the_other_database(mongodb_url: str, tmp_path: Path) -> None:
    migrate = ("migrate", "--from", "sqlite:data/chat.sqlite3", "--to", mongodb_url)
    async with serving(cwd=tmp_path) as server:
        async with chat(server.address) as client:
            events = await client.ask("remember that the key is under the mat")
            session_id = events[0]["session_id"]
        async with command(*migrate, cwd=tmp_path) as refused:
            assert await refused.ended() == 1
            [line] = log_lines(refused.stderr)
            assert (line["level"], line["message"]) == ("error", "not everything is copied")
            assert line["reason"] == "data: another server uses this directory"
        assert await server.stop() == 0

    for _ in range(2):
        async with command(*migrate, cwd=tmp_path) as migration:
            assert await migration.ended() == 0, migration.stderr
            counts = migration.stdout.splitlines()
            assert counts[0].removeprefix("found:  ") == counts[1].removeprefix("copied: ")
            assert counts[0].startswith("found:  1 sessions, 1 exchanges, ")
            progress = [line for line in log_lines(migration.stderr) if line["message"] == "rows copied"]
            assert progress[-1]["copied"] == progress[-1]["found"] == counts[0].removeprefix("found:  ")

    async with serving("--store", mongodb_url, cwd=tmp_path) as server, chat(server.address) as client:
        events = await client.ask("what do you remember?", session_id=session_id)
        assert "under the mat" in text_of(events[-1]["messages"][-1])
        assert await server.stop() == 0
    # And back, into a file of its own.
    async with command("migrate", "--from", mongodb_url, "--to", "sqlite:back/chat.sqlite3", cwd=tmp_path) as migration:
        assert await migration.ended() == 0, migration.stderr
    async with serving("--data", "back", cwd=tmp_path) as server, chat(server.address) as client:
        events = await client.ask("what do you remember?", session_id=session_id)
        assert "under the mat" in text_of(events[-1]["messages"][-1])
        await client.ask("hello")
        assert await server.stop() == 0
    with closing(sqlite3.connect(tmp_path / "back" / "chat.sqlite3")) as db, db:
        db.execute("DELETE FROM sessions WHERE id = ?", (session_id,))
    async with command("migrate", "--from", "sqlite:back/chat.sqlite3", "--to", mongodb_url, cwd=tmp_path) as refused:
        assert await refused.ended() == 1
        [line] = [line for line in log_lines(refused.stderr) if line["message"] == "not everything is copied"]
        assert "the target has other sessions" in line["reason"]


@pytest.mark.parametrize(
    ("source", "target", "status", "told"),
    [
        (
            "mongodb://h/a",
            "mongodb://h/b",
            2,
            "sqlite:FILE to mongodb:// or mongodb+srv://…, or back",
        ),
        (
            "sqlite:chat.db",
            "sqlite:other.db",
            2,
            "sqlite:FILE to mongodb:// or mongodb+srv://…, or back",
        ),
        ("sqlite:absent.db", "mongodb://h/b", 1, "absent.db: there is no such file"),
        ("sqlite:empty.db", "mongodb://u:s3cret@127.0.0.1:1/b", 1, "mongodb://127.0.0.1:1/b: no server answers there"),
    ],
)
def test_what_cannot_be_done_is_told(
    source: str,
    target: str,
    status: int,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.db").touch()
    with logging_as_before():
        assert main(["migrate", "--from", source, "--to", target]) == status
    output = capfd.readouterr()
    line = log_lines(output.err)[-1]
    assert told in (line["problem"] if status == 2 else line["reason"]) and "s3cret" not in output.err
    assert output.out == ""
