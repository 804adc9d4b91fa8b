"""Vectors in a store beside the database: what they find, what becomes of them, what breaks where it is away."""

import asyncio
import json
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence, Sized
from datetime import timedelta
from math import hypot
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import pytest
from services.postgres import Postgres
from support.collections_of_documents import FLOOD, LEAVE, collection, found, put, settled
from support.documents import DOCS, blocks
from support.kept_vectors import FAILING, GOES_ON, HANGS_UNTIL, STORES, KeptVectors

from agentic_backend.application import ApplicationUnavailable, Embedded, OwnRecords, Stored, Worker, WorkerEmbedder
from agentic_backend.applications.retrieval import ingestion, reading
from agentic_backend.applications.retrieval.application import Retrieval
from agentic_backend.applications.retrieval.documents import StoredDocument
from agentic_backend.applications.retrieval.library import OF_CONVERSATION
from agentic_backend.applications.retrieval.records import (
    LEFT_VECTORS,
    OF_USERS,
    Collection,
    DocumentState,
    LeftVectors,
    StoredChunk,
)
from agentic_backend.applications.retrieval.vector_stores import external_vectors
from agentic_backend.applications.retrieval.vector_stores.external_vectors import ExternalVectors
from agentic_backend.command_line.migrate import migrate
from agentic_backend.testing import ApplicationProblems, OpenedApplication, open_application

Settings = dict[str, Any]


class WithLetters(Retrieval):
    """Embeds by the small model."""

    catalog = None

    def workers(self) -> list[Worker]:
        return [Worker("embedder", "support.letters_embedder:Letters", memory_mb=512)]

    def embedder(self) -> WorkerEmbedder | None:
        return WorkerEmbedder("letters-1", "embedder")


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with TemporaryDirectory() as directory:
        server = Postgres(Path(directory))
        server.start()
        yield server
        server.stop()


@pytest.fixture(scope="module", autouse=True)
def _documented() -> Iterator[None]:
    """The module that docs/retrieval.md shows."""
    [block] = (block for block in blocks(DOCS / "retrieval.md") if block.file == "pg_vectors.py")
    module = ModuleType("pg_vectors")
    exec(compile(block.text, str(block), "exec"), vars(module))
    sys.modules["pg_vectors"] = module
    yield
    del sys.modules["pg_vectors"]


class Table:
    """A table for one test."""

    def __init__(self, postgres: Postgres) -> None:
        self.postgres = postgres
        self.name = f"t{uuid4().hex[:12]}"

    @property
    def settings(self) -> Settings:
        url = self.postgres.url("postgresql+asyncpg")
        return {"vector_store": {"class_path": "pg_vectors:PgVectors", "settings": {"url": url, "table": self.name}}}

    async def rows(self) -> list[dict[str, Any]]:
        client = await asyncpg.connect(self.postgres.url())
        try:
            tables = await client.fetch("SELECT tablename FROM pg_tables WHERE tablename LIKE $1", f"{self.name}%")
            return [dict(row) for [table] in tables for row in await client.fetch(f'SELECT * FROM "{table}"')]
        finally:
            await client.close()


@pytest.fixture
def table(postgres: Postgres) -> Table:
    return Table(postgres)


def kept(name: str) -> Settings:
    """Settings with a store in memory."""
    return {"vector_store": {"class_path": "support.kept_vectors:KeptVectors", "settings": {"store": name}}}


def texts_in(name: str) -> set[str]:
    """What stands in the place of texts in such a store."""
    return {each["text"] for stored in STORES[name].values() for each in stored.store.values()}


async def records_in(left: OwnRecords[LeftVectors]) -> Sequence[Stored[LeftVectors]]:
    return (await left.find()).records


async def chunks_of(opened: OpenedApplication[Any]) -> dict[str, StoredChunk]:
    own = opened.application.records_of(OF_USERS.chunks).of_user("ann")
    return {each.key: each.value async for each in own.each()}


async def test_what_pgvector_finds_is_the_readers_and_it_has_no_text(table: Table) -> None:
    async with open_application(WithLetters, table.settings) as opened:
        async with opened.client("bob") as bob:
            await collection(bob, "Bob's", leave=LEAVE)
        async with opened.client("ann") as ann:
            terms = await collection(ann, "Terms", leave=LEAVE, flood=FLOOD)
            passages = await found(ann, terms, "paid leave")
            assert {each["name"] for each in passages if "vectors" in each["ranks"]} == {"leave.md", "flood.md"}
            assert min(passages, key=lambda each: each["ranks"]["vectors"])["name"] == "leave.md"
        stored = await chunks_of(opened)
        rows = await table.rows()
        assert {row["content"] for row in rows} > set(stored) and {row["langchain_metadata"] for row in rows} == {"{}"}
        assert all(hypot(*json.loads(row["embedding"])) == pytest.approx(1, abs=1e-5) for row in rows)
        assert {row["index"] for row in rows} >= {value.index for value in stored.values()}
        # They are there instead of in the database.
        own = opened.application.records_of(OF_USERS.chunks).of_user("ann")
        vector = (await opened.application.embed(["leave"])).vectors[0]
        assert await own.nearest(vector, within=[value.index for value in stored.values()][:1]) == []


async def until(rows: Callable[[], Awaitable[Sized]], count: int) -> None:
    """Wait until there are so many."""
    async with asyncio.timeout(30):
        while len(await rows()) != count:
            await asyncio.sleep(0.02)


async def documents_in(opened: OpenedApplication[Any], state: DocumentState) -> list[StoredDocument]:
    return [each async for each in opened.application.documents.in_state(state)]


async def document_of(client: httpx.AsyncClient, collection_id: str, name: str) -> str:
    return str((await settled(client, collection_id))[name]["id"])


@pytest.mark.parametrize("what", ["document", "edition", "collection", "user"])
async def test_what_goes_takes_its_vectors_along(table: Table, database: str, what: str) -> None:
    async with (
        open_application(WithLetters, table.settings, store=database) as opened,
        opened.client("ann") as ann,
    ):
        terms = await collection(ann, "Terms", leave=LEAVE, flood=FLOOD)
        before, chunks = await table.rows(), await chunks_of(opened)
        assert len(before) == len(chunks) == 2
        match what:
            case "document":
                await ann.delete(f"/collections/{terms}/documents/{await document_of(ann, terms, 'leave.md')}")
            case "edition":
                await put(ann, terms, "leave.md", b"# Leave\n\nNobody has any.")
            case "collection":
                await ann.delete(f"/collections/{terms}")
            case "user":
                deleted = await ann.delete("http://127.0.0.1/agentic/v1/me")
                assert deleted.status_code == 204
        left = opened.application.records_of(LEFT_VECTORS).of_application()

        async def gone() -> list[str]:
            return [id for each in await records_in(left) for _, id in each.value.ids]

        leaves = len(chunks) if what in ("collection", "user") else 1
        await until(gone, leaves)
        await opened.application.remove_vectors()
        stays = {*await chunks_of(opened)}
        assert {row["content"] for row in await table.rows()} == stays
        assert len(stays) == (1 if what == "edition" else 0) + len(chunks) - leaves


async def test_a_store_that_is_away_breaks_the_search_by_vectors_alone_and_what_was_left_is_done_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ingestion, "_AGAIN_S", 0.02)
    monkeypatch.setattr(ingestion, "_LEFT_FOR", timedelta(0))
    with TemporaryDirectory() as directory:
        postgres = Postgres(Path(directory))
        postgres.start()
        table = Table(postgres)
        async with open_application(WithLetters, table.settings) as opened, opened.client("ann") as ann:
            terms = await collection(ann, "Terms", leave=LEAVE)
            postgres.stop()
            await put(ann, terms, "flood.md", FLOOD.encode())
            told = (await settled(ann, terms))["flood.md"]
            assert told["reason"] == "It is not found by meaning yet: The vector store does not answer."
            answer = (await ann.get(f"/collections/{terms}/search", params={"q": "groundwater"})).json()
            assert answer["passages"][0]["name"] == "flood.md" and {*answer["failed"]} == {"vectors"}
            await ann.delete(f"/collections/{terms}/documents/{await document_of(ann, terms, 'leave.md')}")
            async with asyncio.timeout(30):
                while {*await settled(ann, terms)} != {"flood.md"}:
                    await asyncio.sleep(0.02)
            postgres.start()
            opened.application.external._failed_at = None
            await opened.application.find_work()
            async with asyncio.timeout(30):
                while not (await settled(ann, terms))["flood.md"]["is_embedded"]:
                    await asyncio.sleep(0.02)
            await opened.application.remove_vectors()
            assert {row["content"] for row in await table.rows()} == {*await chunks_of(opened)}
            assert "vectors" in (await found(ann, terms, "groundwater"))[0]["ranks"]
        postgres.stop()


async def embedders(opened: OpenedApplication[Any]) -> set[str]:
    own = opened.application.records_of(OF_USERS.collections).of_user("ann")
    return {index.partition(" ")[2] for each in (await own.find()).records for index in each.value.indexes}


async def test_documents_move_into_the_store_and_back_and_are_found_by_vectors_meanwhile(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'store.db'}"
    name = uuid4().hex
    async with open_application(WithLetters, store=database) as opened, opened.client("ann") as ann:
        terms = await collection(ann, "Terms", leave=LEAVE)
    GOES_ON[name] = asyncio.Event()
    async with open_application(WithLetters, kept(name), store=database) as opened, opened.client("ann") as ann:
        assert "vectors" in (await found(ann, terms, "leave"))[0]["ranks"]
        GOES_ON[name].set()
        async with asyncio.timeout(30):
            while await embedders(opened) != {"letters-1@external"}:
                await asyncio.sleep(0.02)
        assert "vectors" in (await found(ann, terms, "leave"))[0]["ranks"]
        assert texts_in(name) == {*await chunks_of(opened)}
    async with open_application(WithLetters, store=database) as opened, opened.client("ann") as ann:
        async with asyncio.timeout(30):
            while await embedders(opened) != {"letters-1"}:
                await asyncio.sleep(0.02)
        assert "vectors" in (await found(ann, terms, "leave"))[0]["ranks"]


@pytest.mark.further
async def test_a_copy_of_the_database_goes_on_with_the_store(mongodb_url: str, tmp_path: Path) -> None:
    name, file = uuid4().hex, tmp_path / "store.db"
    async with open_application(WithLetters, kept(name), store=f"sqlite:{file}") as opened, opened.client("ann") as ann:
        terms = await collection(ann, "Terms", leave=LEAVE)
        before = {*await chunks_of(opened)}
    assert await asyncio.to_thread(migrate, f"sqlite:{file}", mongodb_url) == 0
    async with open_application(WithLetters, kept(name), store=mongodb_url) as opened, opened.client("ann") as ann:
        assert "vectors" in (await found(ann, terms, "leave"))[0]["ranks"]
        assert {*await chunks_of(opened)} == before == texts_in(name)
        await ann.delete(f"/collections/{terms}")
        left = opened.application.records_of(LEFT_VECTORS).of_application()
        await until(lambda: records_in(left), 1)
        await opened.application.remove_vectors()
        assert texts_in(name) == set()


async def test_files_of_a_conversation_keep_their_vectors_in_the_database() -> None:
    name = uuid4().hex
    async with open_application(WithLetters, kept(name)) as opened:
        embedders = opened.application.embedders
        assert embedders.of(Collection(id=OF_CONVERSATION, title="")) == "letters-1"
        assert embedders.of(Collection(id="a", title="")) == "letters-1@external"


async def test_what_a_killed_server_was_adding_is_there_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "ANOTHERS", timedelta(0))
    database, name = f"sqlite:///{tmp_path / 'store.db'}", uuid4().hex
    GOES_ON[name] = asyncio.Event()
    async with open_application(WithLetters, kept(name), store=database) as opened, opened.client("ann") as ann:
        terms = await collection(ann, "Terms")
        await put(ann, terms, "leave.md", LEAVE.encode())
        await until(lambda: chunks_of(opened), 1)
        before = {*await chunks_of(opened)}
    GOES_ON[name].set()
    async with open_application(WithLetters, kept(name), store=database) as opened, opened.client("ann") as ann:
        await until(lambda: documents_in(opened, "ready"), 1)
        after = {*await chunks_of(opened)}
        assert texts_in(name) == after and not before & after


async def test_what_is_removed_after_a_failure_is_not_what_is_added_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingestion, "_AGAIN_S", 0.02)
    monkeypatch.setattr(external_vectors, "_AWAY_S", 0)
    name = uuid4().hex
    FAILING.append(name)
    async with open_application(WithLetters, kept(name)) as opened, opened.client("ann") as ann:
        await collection(ann, "Terms", leave=LEAVE)
        left = opened.application.records_of(LEFT_VECTORS).of_application()
        assert len(await records_in(left)) == 1
        await opened.application.remove_vectors()
        assert texts_in(name) == {*await chunks_of(opened)}


async def test_nothing_is_embedded_for_a_store_that_has_failed_just_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingestion, "_AGAIN_S", 0.02)
    name = uuid4().hex
    FAILING.append(name)
    async with open_application(WithLetters, kept(name)) as opened, opened.client("ann") as ann:
        embed, embedded = opened.application.embed, list[str]()

        async def counted(texts: Sequence[str], **named: Any) -> Embedded:
            embedded.extend(texts)
            return await embed(texts, **named)

        opened.application.embed = counted  # type: ignore[method-assign]
        terms = await collection(ann, "Terms", leave=LEAVE)
        assert (await settled(ann, terms))["leave.md"]["reason"] is not None and len(embedded) == 1


async def test_what_was_being_added_when_it_was_removed_is_removed_later(monkeypatch: pytest.MonkeyPatch) -> None:
    name = uuid4().hex
    async with open_application(WithLetters, kept(name)) as opened, opened.client("ann") as ann:
        terms = await collection(ann, "Terms", leave=LEAVE)
        [(key, chunk)] = (await chunks_of(opened)).items()
        await ann.delete(f"/collections/{terms}")
        left = opened.application.records_of(LEFT_VECTORS).of_application()
        await until(lambda: records_in(left), 1)
        await opened.application.remove_vectors()
        assert texts_in(name) == set()
        # As an instance does that is killed right after.
        await opened.application.external.add(chunk.index, {key: [1.0] * (chunk.dimensions or 0)})
        await opened.application.remove_vectors()
        assert texts_in(name) == {key}
        monkeypatch.setattr(external_vectors, "_LATE", timedelta(0))
        await opened.application.remove_vectors()
        assert texts_in(name) == set() and await records_in(left) == []


async def test_what_is_added_while_its_user_is_deleted_goes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def before_it_is_written(*_: object) -> None:
        pass

    # As if all was written after this has looked.
    monkeypatch.setattr(ExternalVectors, "forget", before_it_is_written)
    name = uuid4().hex
    GOES_ON[name] = asyncio.Event()
    async with open_application(WithLetters, kept(name)) as opened, opened.client("ann") as ann:
        terms = await collection(ann, "Terms")
        await put(ann, terms, "leave.md", LEAVE.encode())
        await until(lambda: chunks_of(opened), 1)
        assert (await ann.delete("http://127.0.0.1/agentic/v1/me")).status_code == 204
        GOES_ON[name].set()
        left = opened.application.records_of(LEFT_VECTORS).of_application()
        await until(lambda: records_in(left), 1)
        assert len(texts_in(name)) == 1
        await opened.application.remove_vectors()
        assert texts_in(name) == set()


async def test_a_store_that_does_not_keep_to_what_is_asked_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeptVectors, "within", lambda self, indexes: {})
    async with open_application(WithLetters, kept(uuid4().hex)) as opened, opened.client("ann") as ann:
        await collection(ann, "Other", leave=LEAVE)
        terms = await collection(ann, "Terms", flood=FLOOD)
        answer = (await ann.get(f"/collections/{terms}/search", params={"q": "leave"})).json()
        assert {*answer["failed"]} == {"vectors"}


async def test_a_store_that_hangs_takes_no_thread_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_vectors, "_CALL_S", 0.02)
    settings = {"vector_store": {"class_path": "support.kept_vectors:HangingVectors"}}
    async with open_application(WithLetters, settings) as opened:
        for _ in range(40):
            with pytest.raises(ApplicationUnavailable):
                await opened.application.external.nearest([1.0], ["a"], 1)
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "free"), 10) == "free"
        hanging = [each for each in threading.enumerate() if each.name.startswith("vector-store")]
        assert len(hanging) == 4
    HANGS_UNTIL.set()


@pytest.mark.parametrize(
    ("wrong", "place", "told"),
    [
        ({"class_path": "support.kept_vectors:Nothing"}, "class_path", "Nothing"),
        ({"class_path": "builtins:dict"}, "class_path", "ExternalVectorStore"),
        ({"class_path": "support.kept_vectors:KeptVectors", "settings": {"stoer": "x"}}, "settings", "stoer: Extra"),
        ({"class_path": "support.kept_vectors:KeptVectors"}, "settings", "store: Field required"),
        ({"class_path": "support.kept_vectors:KeptVectors", "settings": {"store": "x"}, "name": "A@b"}, "name", ""),
    ],
)
async def test_what_is_wrong_with_the_setting_is_told_with_its_place(wrong: Settings, place: str, told: str) -> None:
    with pytest.raises(ApplicationProblems) as raised:
        async with open_application(WithLetters, {"vector_store": wrong}):
            pass
    assert f"vector_store.{place}" in str(raised.value) and told in str(raised.value)
