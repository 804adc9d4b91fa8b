"""Damaged pages of a SQLite file are found, named and told."""

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from agentic_backend.errors import StoreUnavailable
from agentic_backend.kpi import Kpi
from agentic_backend.loop.event_loop import running
from agentic_backend.stores.opening import CannotOpenStore
from agentic_backend.stores.sqlite import SqliteStore
from agentic_backend.stores.sqlite.page_check import Checked, PagesWatch, check_pages, watched_pages
from agentic_backend.stores.tables import KPI_RECORDS

PAGE = 4096


@pytest.fixture
def kpi() -> Kpi:
    return Kpi()


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    """A database of ours with some rows, all of it in the one file."""
    path = tmp_path / "chat.sqlite3"
    store = await SqliteStore.open(path, timeout_s=5)
    await store.aclose()
    await asyncio.to_thread(fill, path, 300)
    return path


def fill(path: Path, rows: int) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db:
        values = [(f"e{number}", f"user{number}", "2026-01-01", "x" * 500) for number in range(rows)]
        db.executemany("INSERT INTO kpi_records VALUES (?, ?, ?, ?)", values)
        db.commit()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def overwrite(path: Path, page: int, offset: int = 0) -> None:
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE + offset)
        file.write(b"\xff" * 64)


def root_of(path: Path, name: str) -> int:
    with contextlib.closing(sqlite3.connect(path)) as db:
        [(page,)] = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,)).fetchall()
    return int(page)


def a_page_of_a_table(path: Path) -> None:
    overwrite(path, root_of(path, "kpi_records"))


def a_page_of_an_index(path: Path) -> None:
    overwrite(path, root_of(path, "kpi_records_by_user"))


def the_middle_of_the_file(path: Path) -> None:
    overwrite(path, path.stat().st_size // PAGE * 3 // 4, 8)


def the_end(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


DAMAGES = [a_page_of_a_table, a_page_of_an_index, the_middle_of_the_file, the_end]
Damage = Callable[[Path], None]


async def test_a_file_that_is_whole_or_not_there_is_not_damaged(file: Path, tmp_path: Path) -> None:
    checked = await check_pages(file, None)
    assert (checked.damage, checked.is_whole) == (None, True) and checked.took_s > 0
    absent = tmp_path / "absent.sqlite3"
    assert (await check_pages(absent, None)).is_whole
    assert not await asyncio.to_thread(absent.exists)


@pytest.mark.parametrize("damage", DAMAGES)
async def test_damage_is_found(file: Path, damage: Damage) -> None:
    await asyncio.to_thread(damage, file)
    checked = await check_pages(file, None)
    assert checked.damage is not None and checked.is_whole
    if damage is not the_end:
        assert checked.damage.startswith("in kpi_records; "), checked.damage
    assert "xxx" not in checked.damage


async def test_what_is_written_meanwhile_is_no_damage(file: Path) -> None:
    async with aclosing(await SqliteStore.open(file, timeout_s=5)) as store:
        await store.prove_write()
        assert (await check_pages(file, None)).damage is None
        await store.prove_write()


async def test_a_check_is_over_in_its_time_and_when_it_is_cancelled(file: Path) -> None:
    await asyncio.to_thread(fill_more, file)
    part = await check_pages(file, 0.0)
    assert (part.damage, part.is_whole) == (None, False)
    checking = asyncio.create_task(check_pages(file, None))
    await asyncio.sleep(0)
    checking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await checking


def fill_more(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("DELETE FROM kpi_records")
        db.commit()
    fill(path, 20_000)


async def test_a_large_file_is_checked_beside_the_server_and_damage_is_told(
    file: Path, kpi: Kpi, caplog: pytest.LogCaptureFixture
) -> None:
    await asyncio.to_thread(fill_more, file)
    await asyncio.to_thread(the_middle_of_the_file, file)
    caplog.set_level(logging.INFO)
    async with watched_pages(file, kpi, start_s=0.0) as watch:
        assert watch.damage is None
        assert b"chat_store_damaged 0.0" in (await asyncio.to_thread(kpi.exposition, ""))[0]
        async with asyncio.timeout(30):
            while watch.damage is None:
                await asyncio.sleep(0.05)
        assert b"chat_store_damaged 1.0" in (await asyncio.to_thread(kpi.exposition, ""))[0]
    [told] = [record for record in caplog.records if record.levelno == logging.ERROR]
    advice = vars(told)["advice"]
    assert "chat.sqlite3 is damaged (in kpi_records; " in advice and "restore a backup" in advice
    assert told.message == "database damaged" and vars(told)["took_s"] > 0


async def test_a_damaged_page_that_a_query_meets_is_told_at_once_and_not_after_a_day(file: Path, kpi: Kpi) -> None:
    async with watched_pages(file, kpi) as watch:
        async with aclosing(await SqliteStore.open(file, timeout_s=10, suspect=watch.suspect)) as store:
            await asyncio.to_thread(a_page_of_a_table, file)
            with pytest.raises(StoreUnavailable):
                await store.page(KPI_RECORDS, None, 100_000)
            async with asyncio.timeout(30):
                while watch.damage is None:
                    await asyncio.sleep(0.05)
    assert "in kpi_records" in watch.damage


async def test_nobody_starts_on_a_damaged_file(file: Path, kpi: Kpi) -> None:
    await asyncio.to_thread(a_page_of_a_table, file)
    with pytest.raises(CannotOpenStore, match=r"chat\.sqlite3 is damaged \(in kpi_records; .*restore a backup"):
        async with watched_pages(file, kpi):
            pass


async def test_queries_that_go_on_finding_damage_do_not_have_the_file_read_without_a_rest(
    tmp_path: Path, kpi: Kpi
) -> None:
    checks, again = 0, asyncio.Event()

    class Suspected(PagesWatch):
        async def check(self, at_most_s: float | None) -> Checked:
            nonlocal checks
            checks += 1
            if checks > 1:
                again.set()
            # A query finds damage meanwhile, and the check finds none.
            self.suspect()
            return Checked(None, True, 0.0)

    watch = Suspected(tmp_path / "chat.sqlite3", kpi)
    watch.suspect()
    async with running(watch.run(3600)):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await again.wait()
    assert checks == 1
