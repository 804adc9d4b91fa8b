"""Folders that are put into collections: what is in them is found, what is gone is not, and nothing else is touched."""

import asyncio
import os
import signal
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from pytest import CaptureFixture
from support.collections_of_documents import BY_WORDS, FLOOD, LEAVE, PATH, found, put, settled
from support.server_process import command

from agentic_backend.application import StoreUnavailable, User
from agentic_backend.applications.retrieval.application import Retrieval
from agentic_backend.applications.retrieval.intake import folder_commands
from agentic_backend.applications.retrieval.intake.folders import Folder
from agentic_backend.testing import OpenedApplication, open_application

ANN = User("ann", "ann")
TERMS: dict[str, Any] = {"collection": "Terms", "user": ANN}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (folder := tmp_path / "terms").mkdir()
    (folder / "flood.md").write_text(FLOOD)
    (folder / "leave.md").write_text(LEAVE)
    return folder


async def terms_of(client: httpx.AsyncClient) -> str:
    [terms] = (await client.get("/collections")).json()["collections"]
    return str(terms["id"])


@asynccontextmanager
async def watching(opened: OpenedApplication[Retrieval], folder: Path) -> AsyncIterator[None]:
    """While the context is open, the folder is watched."""
    task = asyncio.create_task(opened.application.folders.watch(folder, collection="Terms", user=ANN))
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task])


async def until_there_are(client: httpx.AsyncClient, *names: str) -> None:
    async with asyncio.timeout(30):
        while {*(await settled(client, await terms_of(client)))} != {*names}:
            await asyncio.sleep(0.02)


async def test_ingest_ends_when_all_is_read_and_an_unchanged_folder_is_not_read_again(
    folder: Path, capsys: CaptureFixture[str]
) -> None:
    async with open_application(Retrieval, BY_WORDS) as opened, opened.client("ann") as client:
        await opened.application.folders.ingest(folder, **TERMS)
        listed = (await client.get(f"/collections/{await terms_of(client)}/documents")).json()["documents"]
        assert {each["state"] for each in listed} == {"ready"}
        assert capsys.readouterr().out.splitlines() == [
            "1/2 put flood.md",
            "2/2 put leave.md",
            "2 put, 0 unchanged, 0 removed, 0 left out, 0 failed",
        ]

        async def read(*_: Any, **__: Any) -> Any:
            raise AssertionError("it is read again")

        opened.application.read_document = read  # type: ignore[method-assign]
        await opened.application.folders.ingest(folder, **TERMS)
        assert "0 put, 2 unchanged" in capsys.readouterr().out


async def test_ingest_says_what_could_not_be_read_and_fails(folder: Path, capsys: CaptureFixture[str]) -> None:
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 nothing")
    async with open_application(Retrieval, BY_WORDS) as opened:
        with pytest.raises(SystemExit) as ended:
            await opened.application.folders.ingest(folder, **TERMS)
    told = capsys.readouterr().out
    assert ended.value.code == 1 and "failed broken.pdf: " in told and "3 put, 0 unchanged" in told


async def test_ingest_shows_a_bar_on_a_terminal(
    folder: Path, capsys: CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_application(Retrieval, BY_WORDS) as opened:
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        await opened.application.folders.ingest(folder, **TERMS)
    told = capsys.readouterr().out
    assert f"Putting [{'#' * 15}{'.' * 15}] 1/2" in told and f"Reading [{'#' * 30}] 2/2" in told


async def test_ingest_removes_what_is_gone_if_told_to_and_only_what_came_from_the_folder(
    folder: Path, tmp_path: Path
) -> None:
    (other := tmp_path / "other").mkdir()
    (other / "other.md").write_text(LEAVE)
    async with open_application(Retrieval, BY_WORDS) as opened, opened.client("ann") as client:
        for each in (folder, other):
            await opened.application.folders.ingest(each, **TERMS)
        terms = await terms_of(client)
        await put(client, terms, "by-hand.md", LEAVE.encode())
        (folder / "flood.md").unlink()
        await opened.application.folders.ingest(folder, **TERMS)
        assert {*(await settled(client, terms))} == {"flood.md", "leave.md", "other.md", "by-hand.md"}
        await opened.application.folders.ingest(folder, **TERMS, delete=True)
        assert {*(await settled(client, terms))} == {"leave.md", "other.md", "by-hand.md"}


async def test_nothing_is_removed_where_a_part_of_the_folder_can_not_be_looked_at(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "part").mkdir()
    (folder / "flood.md").rename(folder / "part" / "flood.md")
    async with open_application(Retrieval, BY_WORDS) as opened, opened.client("ann") as client:
        await opened.application.folders.ingest(folder, **TERMS)
        scandir = os.scandir

        def refuse(path: Any) -> Any:
            if str(path).endswith("part"):
                raise PermissionError(path)
            return scandir(path)

        monkeypatch.setattr(os, "scandir", refuse)
        (folder / "leave.md").unlink()
        await opened.application.folders.ingest(folder, **TERMS, delete=True)
        assert {*(await settled(client, await terms_of(client)))} == {"leave.md", "part/flood.md"}
        monkeypatch.setattr(os, "scandir", scandir)
        await opened.application.folders.ingest(folder, **TERMS, delete=True)
        assert {*(await settled(client, await terms_of(client)))} == {"part/flood.md"}


async def test_nothing_is_removed_for_a_folder_that_another_has_taken_the_place_of(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: CaptureFixture[str]
) -> None:
    monkeypatch.setattr(folder_commands, "_LOOK_S", 0.05)
    monkeypatch.setattr(folder_commands, "_AGAIN_S", 0.05)
    (parent := tmp_path / "parent").mkdir()
    folder = folder.rename(parent / "terms")
    (tmp_path / "others" / "terms").mkdir(parents=True)
    (tmp_path / "others" / "terms" / "other.md").write_text("# Other")

    async def until_told(problem: str) -> None:
        async with asyncio.timeout(30):
            while problem not in capsys.readouterr().err:
                await asyncio.sleep(0.02)

    async with open_application(Retrieval, BY_WORDS) as opened, opened.client("ann") as client:
        await opened.application.folders.ingest(folder, **TERMS)
        async with watching(opened, folder):
            await until_there_are(client, "flood.md", "leave.md")
            # As where a mount goes away.
            folder.rename(tmp_path / "mounted")
            folder.mkdir()
            await until_told("The folder is empty")
            with pytest.raises(OSError, match="The folder is empty"):
                await opened.application.folders.ingest(folder, **TERMS, delete=True)
            folder.rmdir()
            (tmp_path / "mounted").rename(folder)
            parent.rename(tmp_path / "before")
            parent.symlink_to(tmp_path / "others")
            await until_told("has become a link")
            await until_there_are(client, "flood.md", "leave.md")
            # What somebody removes while it is watched goes, and be it all.
            parent.unlink()
            (tmp_path / "before").rename(parent)
            (folder / "new.md").write_text("# New")
            await until_there_are(client, "flood.md", "leave.md", "new.md")
            for each in folder.iterdir():
                each.unlink()
            await until_there_are(client)


async def test_no_link_leads_out_of_a_folder(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("# Secret")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "secret.md").write_text("# Secret")
    for name, target in {"a.md": "../secret.md", "secrets": "../secrets", "b.md": "leave.md", "c.md": "c.md"}.items():
        (folder / name).symlink_to(target)
    os.mkfifo(folder / "pipe.md")
    async with open_application(Retrieval, BY_WORDS) as opened, opened.client("ann") as client:
        await opened.application.folders.ingest(folder, **TERMS)
        assert {*(await settled(client, await terms_of(client)))} == {"flood.md", "leave.md", "b.md"}
        # It becomes a link after it was looked at.
        into = await opened.application.library.own(ANN, await terms_of(client))
        watched = Folder(opened.application.intake, opened.application.documents, folder)
        await watched.look()
        (folder / "flood.md").unlink()
        (folder / "flood.md").symlink_to("../secret.md")
        [outcome] = await watched.put(into, "flood.md")
        assert outcome.has_failed
        # Or a pipe that nobody fills.
        (folder / "leave.md").unlink()
        os.mkfifo(folder / "leave.md")
        putting = asyncio.create_task(watched.put(into, "leave.md"))
        await asyncio.wait([putting], timeout=5)
        # Without an end it would hold its thread.
        os.close(os.open(folder / "leave.md", os.O_RDWR | os.O_NONBLOCK))
        [outcome] = putting.result()
        assert outcome.has_failed


async def test_a_folder_is_watched(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_commands, "_LOOK_S", 0.05)
    async with open_application(Retrieval, BY_WORDS) as opened, opened.client("ann") as client:
        await opened.application.folders.ingest(folder, **TERMS)
        terms = await terms_of(client)
        async with watching(opened, folder):
            (folder / "leave.md").write_text(LEAVE.replace("28 days", "35 days"))
            (folder / "new.md").write_text("# New")
            (folder / "flood.md").unlink()
            await until_there_are(client, "leave.md", "new.md")
            async with asyncio.timeout(30):
                while not any("35 days" in each["text"] for each in await found(client, terms, "leave")):
                    await asyncio.sleep(0.02)
            assert not await found(client, terms, "groundwater")
        # What is gone while nobody watches is removed afterwards.
        (folder / "new.md").unlink()
        async with watching(opened, folder):
            await until_there_are(client, "leave.md")


async def test_what_came_of_an_archive_goes_with_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_commands, "_LOOK_S", 0.05)
    with zipfile.ZipFile(folder / "terms.zip", "w") as archive:
        archive.writestr("in/flood.md", FLOOD)
    async with open_application(Retrieval, BY_WORDS) as opened, opened.client("ann") as client:
        await opened.application.folders.ingest(folder, **TERMS)
        async with watching(opened, folder):
            await until_there_are(client, "flood.md", "leave.md", "terms.zip/in/flood.md")
            (folder / "terms.zip").unlink()
            await until_there_are(client, "flood.md", "leave.md")


async def test_watching_goes_on_after_the_store_or_the_folder_was_away(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: CaptureFixture[str]
) -> None:
    monkeypatch.setattr(folder_commands, "_LOOK_S", 0.05)
    monkeypatch.setattr(folder_commands, "_AGAIN_S", 0.05)
    async with open_application(Retrieval, BY_WORDS) as opened, opened.client("ann") as client:
        await opened.application.folders.ingest(folder, **TERMS)
        write, is_away = opened.app.store.write_application_records, asyncio.Event()

        async def away(*_: Any) -> None:
            is_away.set()
            raise StoreUnavailable

        async with watching(opened, folder):
            opened.app.store.write_application_records = away  # type: ignore[method-assign]
            (folder / "new.md").write_text("# New")
            await is_away.wait()
            opened.app.store.write_application_records = write  # type: ignore[method-assign]
            await until_there_are(client, "flood.md", "leave.md", "new.md")
            folder.rename(folder.with_name("away"))
            async with asyncio.timeout(30):
                while "No such file" not in capsys.readouterr().err:
                    await asyncio.sleep(0.02)
            await until_there_are(client, "flood.md", "leave.md", "new.md")
            folder.with_name("away").rename(folder)
            (folder / "flood.md").unlink()
            await until_there_are(client, "leave.md", "new.md")


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    (tmp_path / "config").mkdir()
    settings = tmp_path / "config/settings.yaml"
    applications = [{"class_path": PATH, "settings": BY_WORDS}]
    settings.write_text(yaml.safe_dump({"models": {"default": {"model": "offline"}}, "applications": applications}))
    return settings


async def test_ingesting_is_a_command(folder: Path, settings: Path, tmp_path: Path) -> None:
    async with command("ingest", folder, "--collection", "Terms", cwd=tmp_path) as process:
        assert await process.ended() == 0, process.stderr
    assert process.stdout.endswith("2 put, 0 unchanged, 0 removed, 0 left out, 0 failed\n")


async def test_watching_is_a_command_that_ends_when_it_is_told_to(folder: Path, settings: Path, tmp_path: Path) -> None:
    async with command("watch", folder, "--collection", "Terms", "--config", settings, cwd=tmp_path) as process:
        async with asyncio.timeout(45):
            while "put leave.md" not in process.stdout:
                assert process.process.returncode is None, process.stderr
                await asyncio.sleep(0.02)
        assert await process.stop(signal.SIGTERM) == 0
    assert "Traceback" not in process.stderr
