"""Reading documents: whatever breaks off goes on, and what is read at the moment is not found yet."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.collections_of_documents import BY_WORDS, FLOOD, LEAVE, collection, found, put, settled

from agentic_backend.application import Metric, RecordWrite, Worker, WorkerEmbedder
from agentic_backend.applications.retrieval import documents, ingestion, reading
from agentic_backend.applications.retrieval.application import Retrieval
from agentic_backend.applications.retrieval.records import OF_USERS
from agentic_backend.testing import OpenedApplication, open_application

LONG = "\n\n".join(f"# Rule {number}\n\nRule {number} is that nobody {'runs ' * 150}." for number in range(80))


class WithLetters(Retrieval):
    """Embeds by the small model."""

    model = "letters-1"
    catalog = None

    def workers(self) -> list[Worker]:
        return [Worker("embedder", "support.letters_embedder:Letters", memory_mb=512)]

    def embedder(self) -> WorkerEmbedder | None:
        return WorkerEmbedder(self.model, "embedder")


class WithOthers(WithLetters):
    model = "letters-2"


class WithoutAny(WithLetters):
    def workers(self) -> list[Worker]:
        return [Worker("embedder", "support.letters_embedder:NoLetters", memory_mb=512)]


class Cut:
    """Lets the store take so many writes of records, and no more, as if the server stood still."""

    def __init__(self, opened: OpenedApplication[Any], writes: int) -> None:
        self._write, self.left, self.has_ended = opened.app.store.write_application_records, writes, asyncio.Event()
        opened.app.store.write_application_records = self.write  # type: ignore[method-assign]

    async def write(self, writes: Sequence[RecordWrite]) -> None:
        if self.left == 0:
            self.has_ended.set()
            await asyncio.Event().wait()
        self.left -= 1
        await self._write(writes)


async def counted(opened: OpenedApplication[Any]) -> dict[str, int]:
    """How many records of each kind the user has."""
    counts = {}
    for kind in (OF_USERS.documents, OF_USERS.chunks, OF_USERS.contents, OF_USERS.texts):
        page = await opened.application.records_of(kind).of_user("ann").find(limit=200)
        counts[kind.name] = len(page.records)
    return counts


# Of some eleven writes: the content, what is read of it, and what is removed of the edition before.
AT_A_WRITE = [pytest.param(n, marks=() if n in (2, 5, 8) else pytest.mark.further) for n in range(12)]


@pytest.mark.parametrize("writes", AT_A_WRITE)
async def test_what_was_cut_off_anywhere_goes_on(database: str, writes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "ANOTHERS", timedelta(0))
    text = f"{LONG}\n\nAnd the word of it is wombat."
    async with open_application(Retrieval, BY_WORDS, store=database) as opened, opened.client("ann") as client:
        terms = await collection(client, "Terms", long=LONG)
        whole = await counted(opened)
        assert whole == {"document": 1, "chunk": 80, "content": 1, "text": 1}
        cut = Cut(opened, writes)
        putting = asyncio.create_task(put(client, terms, "long.md", text.encode()))
        tasks = [asyncio.create_task(cut.has_ended.wait()), asyncio.create_task(_reads(client, terms, "wombat"))]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        # What was there before is found until the new edition is whole.
        assert len(await found(client, terms, "rule 7")) > 0
        was_put = putting.done()
        for task in (putting, *tasks):
            task.cancel()
    async with open_application(Retrieval, BY_WORDS, store=database) as opened, opened.client("ann") as client:
        if not was_put:
            await put(client, terms, "long.md", text.encode())
        await settled(client, terms)
        await _until_there_are(opened, whole)
        assert "wombat" in (await found(client, terms, "wombat"))[0]["text"]


async def _until_there_are(opened: OpenedApplication[Any], counts: dict[str, int]) -> None:
    """What is replaced goes after what replaces it is found."""
    async with asyncio.timeout(30):
        while await counted(opened) != counts:
            await asyncio.sleep(0.02)


async def _reads(client: httpx.AsyncClient, collection_id: str, word: str) -> None:
    while not any(word in each["text"] for each in await found(client, collection_id, word)):
        await asyncio.sleep(0.02)


async def test_an_upload_that_broke_off_is_given_up(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_application(Retrieval, BY_WORDS, store=database) as opened, opened.client("ann") as client:
        terms = await collection(client, "Terms", leave=LEAVE)
        for name in ("leave.md", "new.md"):
            cut = Cut(opened, 1)
            putting = asyncio.create_task(put(client, terms, name, FLOOD.encode()))
            await cut.has_ended.wait()
            putting.cancel()
            cut.left = -1
        monkeypatch.setattr(ingestion, "_LONGEST_UPLOAD", timedelta(0))
        await opened.application.find_work()
        documents = await settled(client, terms)
        assert {*documents} == {"leave.md"}
        assert "28 days" in (await found(client, terms, "leave"))[0]["text"]
        await put(client, terms, "leave.md", FLOOD.encode())
        await settled(client, terms)
        assert not await found(client, terms, "leave")


async def test_documents_are_found_by_their_vectors_too(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'store.db'}"
    async with open_application(WithLetters, store=database) as opened, opened.client("ann") as client:
        terms = await collection(client, "Terms", leave=LEAVE, flood=FLOOD)
        assert all(each["is_embedded"] for each in (await settled(client, terms)).values())
        [best, *_] = await found(client, terms, "Every employee has 28 days of paid leave a year.")
        assert best["ranks"] == {"words": 1, "vectors": 1}


async def test_another_embedder_embeds_anew_and_the_one_before_is_found_meanwhile(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'store.db'}"
    async with open_application(WithLetters, store=database) as opened, opened.client("ann") as client:
        terms = await collection(client, "Terms", leave=LEAVE)
    async with open_application(WithOthers, store=database) as opened, opened.client("ann") as client:
        async with asyncio.timeout(60):
            while "vectors" not in (await found(client, terms, "leave"))[0]["ranks"]:
                await asyncio.sleep(0.02)
        await _until_there_are(opened, {"document": 1, "chunk": 1, "content": 1, "text": 1})


async def test_what_was_not_cleaned_up_is_embedded_anew_too(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def stands(*_: Any) -> None:
        await asyncio.Event().wait()

    with monkeypatch.context() as patched:
        patched.setattr(reading.DocumentReading, "clean", stands)
        async with open_application(Retrieval, BY_WORDS, store=database) as opened, opened.client("ann") as client:
            terms = await collection(client, "Terms", leave=LEAVE)
    async with open_application(WithLetters, store=database) as opened, opened.client("ann") as client:
        async with asyncio.timeout(60):
            while not (await settled(client, terms))["leave.md"]["is_embedded"]:
                await asyncio.sleep(0.02)
        await _until_there_are(opened, {"document": 1, "chunk": 1, "content": 1, "text": 1})


async def test_where_nothing_embeds_words_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingestion, "_AGAIN_S", 0.01)
    database = f"sqlite:///{tmp_path / 'store.db'}"
    async with open_application(WithoutAny, store=database) as opened, opened.client("ann") as client:
        terms = await collection(client, "Terms", leave=LEAVE)
        assert not (await settled(client, terms))["leave.md"]["is_embedded"]
        answer = (await client.get(f"/collections/{terms}/search?q=leave")).json()
        assert [each["ranks"] for each in answer["passages"]] == [{"words": 1}]
        assert answer["failed"] == {"vectors": "It is not available."}


async def test_people_take_turns(tmp_path: Path) -> None:
    async with (
        open_application(Retrieval, BY_WORDS) as opened,
        opened.client("ann") as ann,
        opened.client("bob") as bob,
    ):
        many, one = await collection(ann, "Many"), await collection(bob, "One")
        for number in range(30):
            await put(ann, many, f"{number}.md", LONG.encode())
        await put(bob, one, "one.md", LEAVE.encode())
        await settled(bob, one)
        left = (await ann.get(f"/collections/{many}/documents?limit=200")).json()["documents"]
        assert sum(each["state"] == "waiting" for each in left) > 10


async def test_what_can_not_even_fail_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_application(Retrieval, BY_WORDS) as opened, opened.client("ann") as client:
        terms = await collection(client, "Terms")
        get, poison = documents.Documents.get, documents.key_of(terms, "poison.md")

        async def read(self: Any, place: Any, key: str) -> Any:
            if key == poison and asyncio.current_task() in opened.application._ingesting:
                raise ValueError(key)
            return await get(self, place, key)

        monkeypatch.setattr(documents.Documents, "get", read)
        await put(client, terms, "poison.md", FLOOD.encode())
        await put(client, terms, "leave.md", LEAVE.encode())
        async with asyncio.timeout(30):
            while not await found(client, terms, "paid leave"):
                await asyncio.sleep(0.02)


async def test_calls_are_served_while_documents_are_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(self: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(ingestion.Ingestion, "find_outdated", never)
    async with open_application(Retrieval, BY_WORDS) as opened, opened.client("ann") as client:
        assert (await client.get("/collections")).status_code == 200


async def test_a_file_is_put_while_the_ingestion_goes_on_with_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_application(Retrieval, BY_WORDS) as opened, opened.client("ann") as client:
        terms = await collection(client, "Terms", leave=LEAVE)
        receiving, met = documents._receiving, 0

        async def late(own: Any, key: str, before: Any, new: Any) -> Any:
            nonlocal met
            if met == 0:
                await opened.application.documents.change(before, state="replacing")
            met += 1
            return await receiving(own, key, before, new)

        monkeypatch.setattr(documents, "_receiving", late)
        await put(client, terms, "leave.md", FLOOD.encode())
        assert met == 2
        await settled(client, terms)
        assert await found(client, terms, "groundwater") and not await found(client, terms, "leave")


async def test_an_ingestion_that_stands_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_application(Retrieval, BY_WORDS) as opened, opened.client("ann") as client:
        terms, measured = await collection(client, "Terms", leave=LEAVE), dict[str, float]()

        def measure(metric: Metric, value: float = 1, /, **_: str) -> None:
            measured[metric.name] = value

        async def at(now_s: float) -> tuple[float, float]:
            """How many wait, and for how long none of them was read, at this time."""
            monkeypatch.setattr(ingestion, "monotonic", lambda: now_s)
            await opened.application.find_work()
            return measured["documents_waiting"], measured["ingestion_stalled_seconds"]

        opened.application.measure = measure  # type: ignore[method-assign]
        with monkeypatch.context() as standing:
            standing.setattr(ingestion.Ingestion, "_add", lambda self, job: None)
            for name in ("a.md", "b.md"):
                await put(client, terms, name, FLOOD.encode())
            assert (await at(1_000), await at(1_060)) == ((2, 0), (2, 60))
            # More that waits is no progress.
            await put(client, terms, "c.md", FLOOD.encode())
            assert await at(1_120) == (3, 120)
            document = (await client.get(f"/collections/{terms}/documents")).json()["documents"]
            waiting = [each["id"] for each in document if each["state"] == "waiting"]
            stored = await opened.application.documents.get(documents.Place("ann"), waiting[0])
            assert stored is not None
            await opened.application.documents.change(stored, state="ready")
            assert (await at(1_180), await at(1_240)) == ((2, 0), (2, 60))
        await opened.application.find_work()
        await settled(client, terms)
        assert await at(9_000) == (0, 0)


async def test_what_was_measured_holds_no_longer_where_another_instance_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingestion, "_TOLD_FOR_S", 0.03)
    measured = asyncio.Queue[tuple[str, float]]()
    monkeypatch.setattr(
        Retrieval, "measure", lambda self, metric, value=1, **_: measured.put_nowait((metric.name, value))
    )
    async with open_application(Retrieval, BY_WORDS) as opened:
        opened.application.measure(ingestion.STALLED, 60)
        async with asyncio.timeout(30):
            while await measured.get() != ("ingestion_stalled_seconds", 60):
                pass
            # The first one may be of the look at the start.
            for _ in range(2):
                while await measured.get() != ("ingestion_stalled_seconds", 0):
                    pass


async def test_one_person_does_not_fill_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingestion, "_MOST_WAITING", 4)
    monkeypatch.setattr(ingestion, "_MOST_OF_ONE", 2)
    turns = ingestion._Turns()
    for owner in ("ann", "ann", "ann", "bob"):
        turns.add(ingestion._Job(documents.Place(owner), f"{turns._count}"))
    assert [(await turns.next()).place.user_id for _ in range(3)] == ["ann", "bob", "ann"]
