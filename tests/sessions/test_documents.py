"""Whose turn it is where several read documents: those of one user wait for each other, and others not for them."""

import asyncio
import sys
from pathlib import Path

import pytest

from agentic_backend.errors import Overloaded, RateLimited
from agentic_backend.extraction import extractor
from agentic_backend.extraction.document import Document, packed
from agentic_backend.extraction.extractor import Bounds
from agentic_backend.sessions.documents import Documents


@pytest.fixture(autouse=True)
def waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is the path of another one, and is read once that is there."""
    program = tmp_path / "program.py"
    answer = packed(Document("text", "read", ()))
    program.write_text(f"""
import os, sys, time
path = sys.stdin.read()
while not os.path.exists(path): time.sleep(0.01)
sys.stdout.buffer.write({answer!r})
""")
    monkeypatch.setattr(extractor, "_PROGRAM", program)


async def test_of_one_user_one_is_read_at_a_time_and_few_wait(tmp_path: Path) -> None:
    documents, path = Documents(), tmp_path / "let go"

    def reading(whose: str, awaited: Path) -> asyncio.Task[Document]:
        return asyncio.create_task(documents.read_bytes(str(awaited).encode(), "a", Bounds(), whose))

    # One is read and four wait; of those beyond, none does.
    hers = [reading("ann", path) for _ in range(7)]
    async with asyncio.timeout(20):
        while sum(task.done() for task in hers) < 2:
            await asyncio.sleep(0.01)
        assert (await reading("bob", tmp_path)).text == "read"
        await asyncio.to_thread(path.touch)
        ended = await asyncio.gather(*hers, return_exceptions=True)
        assert sum(isinstance(each, RateLimited) for each in ended) == 2
        assert sum(isinstance(each, Document) for each in ended) == 5
        assert (await reading("ann", tmp_path)).text == "read"


async def test_who_gives_up_gives_way(tmp_path: Path) -> None:
    documents = Documents()
    first = asyncio.create_task(documents.read_bytes(str(tmp_path / "never").encode(), "a", Bounds(), "ann"))
    second = asyncio.create_task(documents.read_bytes(str(tmp_path).encode(), "a", Bounds(), "ann"))
    async with asyncio.timeout(20):
        await asyncio.wait([second], timeout=0.2)
        first.cancel()
        assert (await second).text == "read"


async def test_where_no_process_can_be_started_the_server_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/absent/python")
    with pytest.raises(Overloaded):
        await Documents().read_bytes(b"x", "a", Bounds(), "ann")
