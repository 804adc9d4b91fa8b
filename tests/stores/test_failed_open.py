"""A database that can't be opened leaves no thread behind that would outlive the event loop."""

import threading
from pathlib import Path

import pytest

from agentic_backend.errors import StoreUnavailable
from agentic_backend.stores.sqlite import SqliteStore


async def test_a_failed_open_leaves_no_thread(tmp_path: Path) -> None:
    for _ in range(30):
        with pytest.raises(StoreUnavailable):
            await SqliteStore.open(tmp_path / "absent" / "chat.sqlite3", timeout_s=5)
        assert not [thread.name for thread in threading.enumerate() if "_connection_worker" in thread.name]
