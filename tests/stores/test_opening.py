"""What is shown of a database's URL, and which file one names."""

import asyncio
import sys
from contextlib import aclosing
from pathlib import Path

import pytest

from agentic_backend.config.settings import Settings
from agentic_backend.stores.journal.journaled_store import JournaledStore
from agentic_backend.stores.opening import CannotOpenStore, open_store, shown, sqlite_file
from agentic_backend.stores.sqlite import SqliteStore


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("mongodb://localhost", "mongodb://localhost"),
        ("mongodb://localhost:27017/chat", "mongodb://localhost:27017/chat"),
        ("mongodb://a:1,b:2/chat?replicaSet=x", "mongodb://a:1,b:2/chat"),
        ("mongodb://ann:pw@a:1,b:2/chat?replicaSet=x", "mongodb://a:1,b:2/chat"),
        ("mongodb+srv://ann:p%40w@cluster.example.org/?tls=true", "mongodb+srv://cluster.example.org/"),
        ("mongodb+srv://ann:p@w@cluster.example.org/", "mongodb+srv://…"),
        ("mongodb://ann:p/w@host/chat", "mongodb://…"),
        ("mongodb://ann:p?w@host/chat", "mongodb://…"),
        ("mongodb://host/chat?authMechanismProperties=X:p@w", "mongodb://…"),
    ],
)
def test_a_url_is_shown_without_what_may_be_secret(url: str, told: str) -> None:
    assert shown(url) == told


@pytest.mark.parametrize(
    ("url", "file"),
    [
        (None, "data/chat.sqlite3"),
        ("sqlite:mine.db", "mine.db"),
        ("sqlite:/var/mine.db", "/var/mine.db"),
        ("sqlite:///var/mine.db", "/var/mine.db"),
        ("mongodb://host/chat", None),
    ],
)
def test_a_url_names_a_file_or_a_server(url: str | None, file: str | None) -> None:
    assert sqlite_file(url, Path("data")) == (None if file is None else Path(file))


async def test_a_file_is_opened_as_its_url_says(tmp_path: Path) -> None:
    settings = Settings.model_validate({"store": {"url": f"sqlite:{tmp_path / 'mine.db'}"}})
    async with aclosing(await open_store(settings, lambda *_: None)) as store:
        assert isinstance(store, JournaledStore) and isinstance(store.store, SqliteStore)
    # The journal is made for the first deletion.
    assert [path.name for path in await asyncio.to_thread(lambda: list(tmp_path.iterdir()))] == ["mine.db"]


async def test_a_file_that_cannot_be_opened_is_named_by_its_directory(tmp_path: Path) -> None:
    settings = Settings.model_validate({"store": {"url": f"sqlite:{tmp_path / 'absent' / 'mine.db'}"}})
    with pytest.raises(CannotOpenStore, match=r"absent: unable to open database file"):
        await open_store(settings, lambda *_: None)


def test_a_url_never_shows_in_the_settings() -> None:
    settings = Settings.model_validate({"store": {"url": "mongodb://ann:s3cret@host/chat"}})
    assert "s3cret" not in repr(settings)


async def test_a_driver_that_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "motor.motor_asyncio", None)
    settings = Settings.model_validate({"store": {"url": "mongodb://host/chat", "driver": "motor"}})
    with pytest.raises(CannotOpenStore, match=r"motor is not installed; agentic-backend\[motor\] brings it"):
        await open_store(settings, lambda *_: None)
