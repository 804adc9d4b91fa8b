"""Backups of a store's database, and their restores, as operators make them."""

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

from pymongo import MongoClient


class Backups(Protocol):
    """The database must be closed for a restore."""

    async def save(self) -> None: ...

    async def restore(self) -> None: ...

    async def holders_of(self, word: str) -> list[str]:
        """The files or collections that have the word anywhere."""
        ...


class SqliteBackups:
    def __init__(self, file: Path, directory: Path) -> None:
        """`directory` is where the backup goes."""
        self._file, self._contents = file, file.parent / "attachments"
        self._saved, self._saved_contents = directory / "saved.db", directory / "saved"

    async def save(self) -> None:
        await asyncio.to_thread(self._save)

    async def restore(self) -> None:
        await asyncio.to_thread(self._restore)

    async def holders_of(self, word: str) -> list[str]:
        return await asyncio.to_thread(self._holders_of, word.encode())

    def _save(self) -> None:
        _copied(self._file, self._saved)
        if self._contents.exists():
            shutil.copytree(self._contents, self._saved_contents, dirs_exist_ok=True)

    def _restore(self) -> None:
        _copied(self._saved, self._file)
        shutil.rmtree(self._contents, ignore_errors=True)
        if self._saved_contents.exists():
            shutil.copytree(self._saved_contents, self._contents)

    def _holders_of(self, word: bytes) -> list[str]:
        files = [*self._file.parent.glob(f"{self._file.name}*"), *self._contents.rglob("*")]
        return [file.name for file in files if file.is_file() and word in file.read_bytes()]


def _copied(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as from_, closing(sqlite3.connect(target)) as to:
        from_.backup(to)


class MongoBackups:
    def __init__(self, url: str) -> None:
        self._url = url
        self._saved: dict[str, list[dict[str, Any]]] = {}

    async def save(self) -> None:
        await asyncio.to_thread(self._save)

    async def restore(self) -> None:
        await asyncio.to_thread(self._restore)

    async def holders_of(self, word: str) -> list[str]:
        return await asyncio.to_thread(lambda: [name for name, rows in self._rows().items() if _has(rows, word)])

    def _save(self) -> None:
        self._saved = self._rows()

    def _restore(self) -> None:
        with MongoClient[dict[str, Any]](self._url) as client:
            database = client.get_default_database()
            for name in {*database.list_collection_names(), *self._saved}:
                database[name].delete_many({})
                if rows := self._saved.get(name):
                    database[name].insert_many(rows)

    def _rows(self) -> dict[str, list[dict[str, Any]]]:
        with MongoClient[dict[str, Any]](self._url) as client:
            database = client.get_default_database()
            return {name: list(database[name].find()) for name in database.list_collection_names()}


def _has(rows: list[dict[str, Any]], word: str) -> bool:
    # Bytes too, as they are ASCII here.
    return any(word in repr(row) for row in rows)
