"""What is removed is found by nobody, and nothing of it is left, whatever else is done at the same time."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, BinaryIO

import httpx
import pytest
import pytest_asyncio
from support.collections_of_documents import BY_WORDS, FLOOD, LEAVE, collection, found, put, settled

from agentic_backend.application import LimitReached
from agentic_backend.applications.retrieval import documents, ingestion, reading
from agentic_backend.applications.retrieval.application import Retrieval
from agentic_backend.applications.retrieval.records import OF_USERS
from agentic_backend.testing import OpenedApplication, open_application

KINDS = (OF_USERS.collections, OF_USERS.documents, OF_USERS.contents, OF_USERS.texts, OF_USERS.chunks)


@pytest_asyncio.fixture
async def opened() -> AsyncIterator[OpenedApplication[Retrieval]]:
    async with open_application(Retrieval, BY_WORDS) as opened:
        yield opened


@pytest_asyncio.fixture
async def ann(opened: OpenedApplication[Retrieval]) -> AsyncIterator[httpx.AsyncClient]:
    async with opened.client("ann") as client:
        yield client


async def until_there_are(opened: OpenedApplication[Any], *counts: int) -> None:
    """Wait until the user has so many records of each of KINDS."""
    async with asyncio.timeout(30):
        while True:
            pages = [await opened.application.records_of(kind).of_user("ann").find(limit=200) for kind in KINDS]
            if tuple(len(page.records) for page in pages) == counts:
                return
            await asyncio.sleep(0.02)


async def test_what_takes_the_place_of_a_removed_document_does_not_bring_it_back(
    ann: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    terms = await collection(ann, "Terms", leave=LEAVE)
    # The ingestion has not come to it yet.
    monkeypatch.setattr(ingestion.Ingestion, "_add", lambda self, job: None)
    [document] = (await settled(ann, terms)).values()
    await ann.delete(f"/collections/{terms}/documents/{document['id']}")
    await put(ann, terms, "leave.md", FLOOD.encode())
    assert not await found(ann, terms, "leave")
    told = await ann.get(f"/collections/{terms}/documents/{document['id']}/text")
    assert told.json()["text"] == ""


async def test_an_upload_whose_document_is_removed_leaves_nothing_and_no_trace_in_what_takes_its_place(
    opened: OpenedApplication[Retrieval], ann: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, has_begun, pieces_of = threading.Event(), threading.Event(), documents._pieces_of

    def held(content: BinaryIO | bytes, number: int) -> list[bytes]:
        if number == 8:
            has_begun.set()
            goes_on.wait(30)
        return pieces_of(content, number)

    monkeypatch.setattr(documents, "_pieces_of", held)
    terms = await collection(ann, "Terms")
    file = ("leave.md", LEAVE.encode() * (2_000_000 // len(LEAVE)))
    putting = asyncio.create_task(ann.post(f"/collections/{terms}/documents", files={"file": file}))
    assert await asyncio.to_thread(has_begun.wait, 30)
    [document] = (await ann.get(f"/collections/{terms}/documents")).json()["documents"]
    await ann.delete(f"/collections/{terms}/documents/{document['id']}")
    async with asyncio.timeout(30):
        while await opened.application.documents.get(documents.Place("ann"), document["id"]) is not None:
            await asyncio.sleep(0.02)
    await put(ann, terms, "leave.md", FLOOD.encode())
    goes_on.set()
    assert (await putting).status_code == 409
    await settled(ann, terms)
    await until_there_are(opened, 1, 1, 1, 1, 1)
    assert "groundwater" in (await found(ann, terms, "groundwater"))[0]["text"]
    assert not await found(ann, terms, "leave")


async def test_a_collection_goes_whole_where_the_server_is_killed_when_it_is_removed(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'store.db'}"
    async with open_application(Retrieval, BY_WORDS, store=database) as opened, opened.client("ann") as client:
        terms = await collection(client, "Terms", leave=LEAVE, flood=FLOOD)
        own = await opened.application.library.at(documents.Place("ann"), terms)
        assert own is not None
        await opened.application.library.remove(own)
    async with open_application(Retrieval, BY_WORDS, store=database) as opened:
        await until_there_are(opened, 0, 0, 0, 0, 0)


async def test_an_upload_that_is_refused_in_the_middle_leaves_what_was_there(
    opened: OpenedApplication[Retrieval], ann: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    terms, pieces_of = await collection(ann, "Terms", leave=LEAVE), documents._pieces_of

    def full(content: BinaryIO | bytes, number: int) -> list[bytes]:
        if number == 8:
            raise LimitReached("You have as many bytes as you may have.")
        return pieces_of(content, number)

    monkeypatch.setattr(documents, "_pieces_of", full)
    for name in ("leave.md", "new.md"):
        refused = await ann.post(f"/collections/{terms}/documents", files={"file": (name, FLOOD.encode() * 8_000)})
        assert refused.json()["error"]["code"] == "limit_reached"
    assert {*(await settled(ann, terms))} == {"leave.md"}
    assert "28 days" in (await found(ann, terms, "leave"))[0]["text"]
    await opened.application.find_work()
    await until_there_are(opened, 1, 1, 1, 1, 1)


async def test_what_is_written_after_another_instance_has_removed_the_document_is_removed_too(
    opened: OpenedApplication[Retrieval], ann: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, removed = reading.DocumentReading._store, asyncio.Event()
    all_documents = opened.application.documents

    async def late(self: Any, document: documents.StoredDocument, *arguments: Any) -> None:
        await all_documents.remove(document)
        going = await all_documents.get(documents.Place.of(document), document.key)
        assert going is not None
        await all_documents.sweep(going)
        await store(self, document, *arguments)
        removed.set()

    monkeypatch.setattr(reading.DocumentReading, "_store", late)
    terms = await collection(ann, "Terms")
    await put(ann, terms, "leave.md", LEAVE.encode())
    async with asyncio.timeout(30):
        await removed.wait()
    # The document is still there, as the other instance forgets it last.
    await until_there_are(opened, 1, 1, 0, 0, 0)


async def test_what_goes_waits_for_nothing_that_is_read() -> None:
    async with open_application(Retrieval, BY_WORDS) as opened, opened.client("ann") as client:
        terms = await collection(client, "Terms", leave=LEAVE, flood=FLOOD)
        flood = (await settled(client, terms))["flood.md"]["id"]

        async def hangs(*_: Any, **__: Any) -> Any:
            await asyncio.Event().wait()

        opened.application.read_document = hangs  # type: ignore[method-assign]
        await put(client, terms, "new.md", b"# New")
        await client.delete(f"/collections/{terms}/documents/{flood}")
        documents = opened.application.records_of(OF_USERS.documents).of_user("ann")
        async with asyncio.timeout(30):
            while await documents.get(flood) is not None:
                await asyncio.sleep(0.02)


async def test_what_another_instance_reads_anew_keeps_its_file(
    opened: OpenedApplication[Retrieval], ann: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, took_back = reading.DocumentReading._store, asyncio.Event()
    take_back = reading.DocumentReading._take_back

    async def meanwhile(self: Any, document: documents.StoredDocument, *arguments: Any) -> None:
        if not took_back.is_set():
            await self._documents.read_again(document)
        await store(self, document, *arguments)

    async def noted(self: Any, *arguments: Any) -> None:
        await take_back(self, *arguments)
        took_back.set()

    monkeypatch.setattr(reading.DocumentReading, "_store", meanwhile)
    monkeypatch.setattr(reading.DocumentReading, "_take_back", noted)
    terms = await collection(ann, "Terms")
    await put(ann, terms, "leave.md", LEAVE.encode())
    async with asyncio.timeout(30):
        await took_back.wait()
    await opened.application.find_work()
    assert (await settled(ann, terms))["leave.md"]["state"] == "ready"
    assert "28 days" in (await found(ann, terms, "leave"))[0]["text"]
