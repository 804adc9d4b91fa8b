"""Directory 0700, files 0600: those that are made, under any umask, and those that an older server has made wider."""

import asyncio
import logging
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from agentic_backend.stores.private_files import private_directory, sole_use
from agentic_backend.stores.sqlite import SqliteStore


@pytest.fixture(autouse=True)
def wide_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def rights(directory: Path) -> dict[str, str]:
    return {path.name: f"{stat.S_IMODE(path.stat().st_mode):04o}" for path in [directory, *directory.iterdir()]}


async def rights_while_open(data: Path) -> dict[str, str]:
    """What the directory has while a store is at work in it."""
    store = await SqliteStore.open(data / "chat.sqlite3", timeout_s=5)
    await store.prove_write()
    try:
        return await asyncio.to_thread(rights, data)
    finally:
        await store.aclose()


def made_by_an_older_server(data: Path, names: Sequence[str]) -> None:
    data.mkdir(mode=0o755)
    for name in names:
        (data / name).touch(0o664)


def test_what_is_made_is_the_server_s_own(tmp_path: Path) -> None:
    data = tmp_path / "a" / "data"
    private_directory(data)
    with sole_use(data):
        assert asyncio.run(rights_while_open(data)) == {
            "data": "0700",
            "server.lock": "0600",
            "chat.sqlite3": "0600",
            "chat.sqlite3-wal": "0600",
            "chat.sqlite3-shm": "0600",
        }


def test_what_is_wider_is_narrowed_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = tmp_path / "data"
    names = ("server.lock", "chat.sqlite3", "chat.sqlite3-wal", "chat.sqlite3-shm")
    made_by_an_older_server(data, names)
    caplog.set_level(logging.INFO)
    private_directory(data)
    with sole_use(data):
        assert asyncio.run(rights_while_open(data)) == {"data": "0700"} | dict.fromkeys(names, "0600")
    told = [vars(record)["path"] for record in caplog.records if record.message == "file permissions narrowed"]
    assert told == [str(data), *(str(data / name) for name in names)]


def test_a_directory_that_is_everybody_s_stays_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tmp_path.chmod(0o1777)
    private_directory(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o1777
    assert "data directory open to everybody" in caplog.text
    tmp_path.chmod(0o700)
