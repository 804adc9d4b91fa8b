"""An operator restores a backup: a server, and the command, delete again what people deleted after it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from support.backups import SqliteBackups
from support.chat_client import chat
from support.log_lines import log_lines, logging_as_before
from support.rest_client import rest
from support.running_server import RunningServer, running_server
from support.test_agents import ENTRIES

from agentic_backend.cli import main

SECRET = "quokka"


@asynccontextmanager
async def served(directory: Path) -> AsyncIterator[RunningServer]:
    async with running_server(directory, agents=ENTRIES) as server:
        yield server


async def ask(server: RunningServer, user_id: str) -> str:
    async with chat(server.address, token=f"dev:{user_id}") as client:
        session_id: str = (await client.ask(f"{SECRET} of {user_id}", agent_id="echo"))[-1]["session_id"]
        return session_id


async def session_ids(server: RunningServer, user_id: str) -> list[str]:
    async with rest(server, f"dev:{user_id}") as client:
        return [each["id"] for each in (await client.get("/sessions")).json()["sessions"]]


async def upload(client: httpx.AsyncClient) -> str:
    answer = await client.post("/attachments", files={"file": ("a.txt", SECRET.encode(), "text/plain")})
    assert answer.status_code == 201, answer.text
    attachment_id: str = answer.json()["id"]
    return attachment_id


def command(*arguments: str) -> int:
    with logging_as_before():
        return main(arguments)


async def restored_after_deletions(directory: Path) -> tuple[str, str]:
    """Stop a server, and restore a backup from before three deletions; a session that stays, and a deleted file."""
    backups = SqliteBackups(directory / "data" / "chat.sqlite3", directory)
    async with served(directory) as server:
        stays, goes, _ = await ask(server, "ann"), await ask(server, "ann"), await ask(server, "bob")
        async with rest(server, "dev:ann") as client:
            file = await upload(client)
        await backups.save()
        async with rest(server, "dev:ann") as client:
            for path in (f"/sessions/{goes}", f"/attachments/{file}"):
                assert (await client.delete(path)).status_code == 204
        async with rest(server, "dev:bob") as client:
            assert (await client.delete("/me")).status_code == 204
    await backups.restore()
    return stays, file


async def test_a_server_on_a_restored_backup_serves_nothing_that_was_deleted(tmp_path: Path) -> None:
    stays, file = await restored_after_deletions(tmp_path)
    async with served(tmp_path) as server:
        assert await session_ids(server, "ann") == [stays]
        assert await session_ids(server, "bob") == []
        async with rest(server, "dev:ann") as client:
            assert (await client.get(f"/attachments/{file}")).status_code == 404


def test_the_command_says_what_it_would_do_does_it_and_has_nothing_left_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(restored_after_deletions(tmp_path))
    arguments = ["redelete", "--config", str(tmp_path / "settings.yaml"), "--data", str(tmp_path / "data")]
    capsys.readouterr()
    for options in (["--dry-run"], [], ["--since", "2026-01-01"]):
        assert command(*arguments, *options) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if "deletions looked at" not in line]
    would, did, again = told
    assert would == "would be deleted again: 1 attachments, 2 sessions"
    assert did.startswith("deleted again: 1 attachments, 2 sessions, ") and did.endswith(" user_rows")
    assert again == "deleted again: nothing"


def test_the_command_needs_a_database_and_a_journal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "settings.yaml"
    config.write_text("{}")
    arguments = ["redelete", "--config", str(config), "--data", str(tmp_path)]
    assert command(*arguments) == 1
    (tmp_path / "chat.sqlite3").touch()
    assert command(*arguments) == 0
    config.write_text("deletions: {journal: null}\n")
    assert command(*arguments) == 1
    lines = log_lines(capfd.readouterr().err)
    assert [(line["message"], line["reason"]) for line in lines] == [
        ("deletions not done again", f"{tmp_path / 'chat.sqlite3'}: there is no such file"),
        ("deletions not done again", "deletions.journal: deletions are noted nowhere"),
    ]
