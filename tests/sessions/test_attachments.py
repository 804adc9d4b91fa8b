"""Attachments without a door: what is removed when nobody sends it, and what is not."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from agentic_backend.agents.models.chat_models import ChatModels
from agentic_backend.auth.user import User
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.errors import AttachmentNotFound
from agentic_backend.sessions.documents import Documents
from agentic_backend.sessions.users.attachments import Attachments
from agentic_backend.stores.records import AttachmentRecord
from agentic_backend.stores.sqlite import SqliteStore

ANN = User("ann", "Ann")
LIMITS = LimitsSettings(uploads_per_minute=None, uploads_per_user=None)


class Wall:
    """A machine's clock that a test sets."""

    def __init__(self) -> None:
        self.at = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
async def store(wall: Wall, tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path / "store.db", timeout_s=10, wall=wall)
    yield store
    await store.aclose()


@pytest.fixture
async def attachments(store: SqliteStore) -> Attachments:
    return Attachments(store, ChatModels({}), LIMITS, Documents())


async def added(attachments: Attachments, text: str = "text") -> AttachmentRecord:
    with TemporaryFile() as file:
        file.write(text.encode())
        return await attachments.add(ANN, "a.txt", file)


async def test_what_nobody_sends_goes_after_its_time(attachments: Attachments, store: SqliteStore, wall: Wall) -> None:
    unsent, sent = await added(attachments), await added(attachments)
    await store.attach([sent.id], ANN.id, "a session")
    wall.at += timedelta(hours=LIMITS.attachment_unsent_h - 1)
    newer = await added(attachments)
    assert await attachments.remove_stale(10) == 0
    wall.at += timedelta(hours=2)
    assert await attachments.remove_stale(10) == 1
    with pytest.raises(AttachmentNotFound):
        await attachments.get(ANN, unsent.id)
    assert await attachments.get(ANN, newer.id) == newer
    assert (await attachments.get(ANN, sent.id)).session_id == "a session"


async def test_an_ask_that_is_refused_gives_its_files_back_and_no_others(
    attachments: Attachments, store: SqliteStore
) -> None:
    before, new = await added(attachments), await added(attachments)
    await store.attach([before.id], ANN.id, "a session")
    with pytest.raises(AttachmentNotFound):
        async with attachments.sent([before.id, new.id], ANN, "a session"):
            raise AttachmentNotFound
    assert (await attachments.get(ANN, before.id)).session_id == "a session"
    assert await attachments.get(ANN, new.id) == replace(new, session_id=None)
