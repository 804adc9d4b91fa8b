"""Collections that a provider's model embeds: approved of, reviewed, budgeted, and searched beside others."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from support.censoring_module import NAME, modules_file
from support.collections_of_documents import BY_WORDS, FLOOD, LEAVE, PATH, collection, found, put, serving, settled
from support.providers.model_server import ModelServer, model_server
from support.rest_client import error_of, plain_http, rest
from support.running_server import FAST, running_server

from agentic_backend.application import BudgetExceeded, User, Worker, WorkerEmbedder
from agentic_backend.applications.retrieval import ingestion, reading
from agentic_backend.applications.retrieval.application import Retrieval
from agentic_backend.applications.retrieval.records import OF_USERS
from agentic_backend.policy.usage.budgets import Budgets
from agentic_backend.testing import OpenedApplication, ScriptedEmbeddings, open_application

ANN = User("ann", "ann")


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small model takes the place of the built-in one."""
    monkeypatch.setattr(Retrieval, "workers", lambda self: [Worker("embedder", "support.letters_embedder:Letters")])
    monkeypatch.setattr(Retrieval, "embedder", lambda self: WorkerEmbedder("letters-1", "embedder"))


class Elsewhere(ScriptedEmbeddings):
    """A provider's model, which can be held."""

    def __init__(self, model: str = "words-1", errors: Sequence[Exception] = ()) -> None:
        super().__init__(errors=errors)
        self.model = model
        self.goes_on = asyncio.Event()
        self.goes_on.set()
        self.was_asked = asyncio.Event()

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        self.was_asked.set()
        await self.goes_on.wait()
        return await super().aembed_documents(texts)

    @property
    def documents(self) -> list[str]:
        return [text for kind, texts in self.asked if kind == "document" for text in texts]


async def approved(client: httpx.AsyncClient, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """What is answered once the person has approved of it."""
    asked = await client.request(method, path, json=body)
    assert error_of(asked)["code"] == "approval_required"
    answer = await client.request(method, path, json=body, headers={"approval": approval_of(asked)})
    assert answer.is_success, answer.text
    told: dict[str, Any] = answer.json()
    return told


def approval_of(refused: httpx.Response) -> str:
    sha256: str = error_of(refused)["approval"]["sha256"]
    return sha256


async def embedded_collection(client: httpx.AsyncClient, title: str, **files: str) -> str:
    """A collection that the provider's model embeds, with these files; its id."""
    made = await approved(client, "POST", "/collections", {"title": title, "embedding": "default"})
    for name, text in files.items():
        await put(client, made["id"], f"{name}.md", text.encode())
    await settled(client, made["id"])
    return str(made["id"])


async def until_embedded(client: httpx.AsyncClient, collection_id: str) -> None:
    async with asyncio.timeout(30):
        while not all(each["is_embedded"] for each in (await settled(client, collection_id)).values()):
            await asyncio.sleep(0.02)


async def embedding_calls(client: httpx.AsyncClient) -> int:
    """How many the user has paid for."""
    sums = (await client.get("/usage", params={"by": "purpose", "start": "2026-01-01"})).json()["sums"]
    return sum(row["calls"] for row in sums if row["keys"]["purpose"] == "embedding")


async def indexes_of(opened: OpenedApplication[Any], collection_id: str) -> set[str]:
    stored = await opened.application.records_of(OF_USERS.collections).of_user("ann").get(collection_id)
    return {index.partition(" ")[2] for index in stored.value.indexes}


@pytest.fixture
async def provider(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ModelServer]:
    async with model_server() as provider:
        monkeypatch.setenv("OPENAI_API_KEY", "key")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{provider.url}/v1")
        yield provider


async def test_a_provider_is_sent_what_modules_leave_and_nothing_before_its_price_is_approved_of(
    provider: ModelServer, tmp_path: Path
) -> None:
    provider.embed = lambda texts: [[len(text), 1.0, *(text.count(each) for each in "aeiou")] for text in texts]
    settings = {
        **FAST,
        "applications": [{"class_path": PATH, "settings": BY_WORDS}],
        "embeddings": {"large": {"model": "openai:text-of-the-tests", "timeout_s": 5}},
        "prices": [{"model": "text-*", "input_per_million": 100, "output_per_million": 0, "from": "2026-01-01"}],
        "modules": {"file": str(modules_file(tmp_path))},
    }
    headers = {"authorization": "Bearer dev:ann"}
    async with (
        running_server(tmp_path, settings=settings) as server,
        plain_http(base_url=f"{server.address}/apps/retrieval", headers=headers, timeout=20) as ann,
    ):
        await serving(ann)
        terms = await collection(ann, "Terms", flood=f"{FLOOD}\nAsk {NAME}.", leave=LEAVE)
        change = {"title": "Terms", "embedding": "large"}
        asked = error_of(await ann.put(f"/collections/{terms}", json=change))
        told = {"model": "text-of-the-tests", "documents": 2, "tokens": 100, "cost": "0.0100 USD"}
        assert asked["approval"]["data"] == told and provider.embedded == []
        await approved(ann, "PUT", f"/collections/{terms}", change)
        await until_embedded(ann, terms)
        sent = "".join(text for body in provider.embedded for text in body["input"])
        assert "28 days" in sent and "[name]" in sent and NAME not in sent
        async with rest(server, "dev:ann") as client, asyncio.timeout(10):
            while await embedding_calls(client) != len(provider.embedded):
                await asyncio.sleep(0.02)
        # What is stored is the document as it is.
        assert any(NAME in each["text"] for each in await found(ann, terms, "groundwater"))


async def test_a_question_is_sent_as_modules_leave_it(provider: ModelServer, tmp_path: Path) -> None:
    modules = tmp_path / "modules.yaml"
    pii = {"class_path": "agentic_backend.modules.pii:PiiRedaction", "settings": {"types": ["email"]}}
    modules.write_text(yaml.safe_dump({"modules": [{"name": "pii", **pii}]}))
    settings = {
        **FAST,
        "applications": [{"class_path": PATH, "settings": BY_WORDS}],
        "embeddings": {"default": {"model": "openai:text-of-the-tests", "timeout_s": 5}},
        "modules": {"file": str(modules)},
    }
    async with (
        running_server(tmp_path, settings=settings) as server,
        plain_http(base_url=f"{server.address}/apps/retrieval", timeout=20) as client,
    ):
        await serving(client)
        terms = await embedded_collection(client, "Terms", leave=LEAVE)
        assert "vectors" in (await found(client, terms, "Who is ada@example.org?"))[0]["ranks"]
        assert "ada@example.org" not in str(provider.embedded) and "Who is" in str(provider.embedded)


async def test_an_estimate_that_was_approved_of_counts_as_long_as_it_holds(letters: None) -> None:
    async with open_application(Retrieval, embeddings=Elsewhere()) as opened, opened.client("ann") as ann:
        terms = await collection(ann, "Terms", leave=LEAVE)
        change = {"title": "Terms", "embedding": "default"}
        asked = await ann.put(f"/collections/{terms}", json=change)
        await put(ann, terms, "flood.md", FLOOD.encode())
        await settled(ann, terms)
        late = await ann.put(f"/collections/{terms}", json=change, headers={"approval": approval_of(asked)})
        assert error_of(late)["approval"]["data"]["documents"] == 2
        await approved(ann, "PUT", f"/collections/{terms}", change)
        # A client that says nothing of it leaves it.
        renamed = await ann.put(f"/collections/{terms}", json={"title": "Rules"})
        assert renamed.json()["embedding"] == "default"


async def test_only_models_of_the_settings_can_be_chosen() -> None:
    async with open_application(Retrieval, BY_WORDS, embeddings=Elsewhere()) as opened, opened.client("ann") as ann:
        assert (await ann.get("/collections")).json()["embeddings"] == ["default"]
        refused = error_of(await ann.post("/collections", json={"title": "Terms", "embedding": "best"}))
        assert refused["code"] == "bad_frame" and "there are: default" in refused["content"]


async def test_the_index_before_serves_until_the_other_model_has_embedded_all_and_then_goes(letters: None) -> None:
    elsewhere = Elsewhere()
    async with open_application(Retrieval, embeddings=elsewhere) as opened, opened.client("ann") as ann:
        terms = await collection(ann, "Terms", leave=LEAVE, flood=FLOOD)
        elsewhere.goes_on.clear()
        await approved(ann, "PUT", f"/collections/{terms}", {"title": "Terms", "embedding": "default"})
        async with asyncio.timeout(30):
            while all(
                each["state"] == "ready"
                for each in (await ann.get(f"/collections/{terms}/documents")).json()["documents"]
            ):
                await asyncio.sleep(0.02)
        assert {*(await found(ann, terms, "leave"))[0]["ranks"]} == {"words", "vectors"}
        elsewhere.goes_on.set()
        async with asyncio.timeout(30):
            while await indexes_of(opened, terms) != {"default:words-1"}:
                await asyncio.sleep(0.02)
        assert len(elsewhere.documents) == 2
        assert (await found(ann, terms, "paid leave"))[0]["ranks"] == {"words": 1, "vectors": 1}


async def test_no_more_of_a_document_is_sent_once_the_built_in_model_is_chosen_again(
    letters: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_EMBEDDED_AT_ONCE", 1)
    elsewhere = Elsewhere()
    async with open_application(Retrieval, embeddings=elsewhere) as opened, opened.client("ann") as ann:
        terms = (await approved(ann, "POST", "/collections", {"title": "Terms", "embedding": "default"}))["id"]
        elsewhere.goes_on.clear()
        await put(ann, terms, "long.md", "".join(f"# Part {n}\n\n{'leave ' * 400}\n\n" for n in range(4)).encode())
        await elsewhere.was_asked.wait()
        changed = await ann.put(f"/collections/{terms}", json={"title": "Terms", "embedding": None})
        assert changed.json()["embedding"] is None
        elsewhere.goes_on.set()
        await until_embedded(ann, terms)
        assert len(elsewhere.documents) == 1


async def test_no_question_is_sent_once_the_built_in_model_is_chosen_again_where_there_is_none() -> None:
    elsewhere = Elsewhere()
    async with open_application(Retrieval, BY_WORDS, embeddings=elsewhere) as opened, opened.client("ann") as ann:
        terms = await embedded_collection(ann, "Terms", leave=LEAVE)
        await ann.put(f"/collections/{terms}", json={"title": "Terms", "embedding": None})
        assert {*(await found(ann, terms, "leave"))[0]["ranks"]} == {"words"}
        assert {kind for kind, _ in elsewhere.asked} == {"document"}


async def test_collections_of_two_models_are_searched_by_both_and_one_that_is_away_leaves_the_other(
    letters: None,
) -> None:
    elsewhere = Elsewhere()
    async with open_application(Retrieval, embeddings=elsewhere) as opened, opened.client("ann") as ann:
        own = await collection(ann, "Own", leave=LEAVE, flood=FLOOD)
        other = await embedded_collection(ann, "Other", leave=LEAVE)
        both = [await opened.application.library.get(ANN, each) for each in (own, other)]
        retrieved = await opened.application.retriever.retrieve(ANN, "paid leave", both)
        ranks = {(each.collection, each.name): each.ranks["vectors"] for each in retrieved.passages}
        assert sorted([ranks["Own", "leave.md"], ranks["Other", "leave.md"]]) == [1, 2]
        assert elsewhere.asked[-1] == ("query", ["paid leave"])
        elsewhere._errors.append(ConnectionError())
        retrieved = await opened.application.retriever.retrieve(ANN, "paid leave", both)
        assert {each.collection for each in retrieved.passages if "vectors" in each.ranks} == {"Own"}
        assert retrieved.ways["vectors"].failed is not None


async def test_what_a_budget_does_not_allow_is_found_by_words_and_embedded_later(
    letters: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def used_up(*_: Any) -> None:
        raise BudgetExceeded

    elsewhere = Elsewhere()
    async with open_application(Retrieval, embeddings=elsewhere) as opened, opened.client("ann") as ann:
        terms = await collection(ann, "Terms", leave=LEAVE)
        with monkeypatch.context() as patched:
            patched.setattr(Budgets, "check", used_up)
            await approved(ann, "PUT", f"/collections/{terms}", {"title": "Terms", "embedding": "default"})
            await put(ann, terms, "flood.md", FLOOD.encode())
            async with asyncio.timeout(30):
                while not all(each["reason"] for each in (await settled(ann, terms)).values()):
                    await asyncio.sleep(0.02)
            told = await settled(ann, terms)
            assert told["flood.md"]["reason"] == "It is not found by meaning yet: The budget is used up."
            # What the model before has embedded still is, and what is new is found.
            assert told["leave.md"]["is_embedded"] and not told["flood.md"]["is_embedded"]
            assert (await found(ann, terms, "groundwater"))[0]["name"] == "flood.md"
            assert elsewhere.asked == []
        monkeypatch.setattr(ingestion, "_LEFT_FOR", timedelta(0))
        await opened.application.find_work()
        async with asyncio.timeout(30):
            while await indexes_of(opened, terms) - {""} != {"default:words-1"}:
                await asyncio.sleep(0.02)
        assert [each["reason"] for each in (await settled(ann, terms)).values()] == [None, None]


async def test_where_no_module_can_look_at_texts_as_in_commands_documents_wait_for_a_server() -> None:
    elsewhere = Elsewhere()
    async with open_application(Retrieval, BY_WORDS, embeddings=elsewhere) as opened, opened.client("ann") as ann:
        made = await approved(ann, "POST", "/collections", {"title": "Terms", "embedding": "default"})
        services = opened.application.services
        assert services is not None
        reviews, services._reviews = services._reviews, None
        await put(ann, made["id"], "leave.md", LEAVE.encode())
        # Its turn is behind that one.
        await collection(ann, "Other", flood=FLOOD)
        [leave] = (await ann.get(f"/collections/{made['id']}/documents")).json()["documents"]
        assert leave["state"] == "waiting" and elsewhere.documents == []
        services._reviews = reviews
        await opened.application.find_work()
        await until_embedded(ann, made["id"])


async def test_ingest_does_not_wait_for_what_only_a_server_may_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "leave.md").write_text(LEAVE)
    elsewhere = Elsewhere()
    async with open_application(Retrieval, BY_WORDS, embeddings=elsewhere) as opened:
        services = opened.application.services
        assert services is not None
        services._reviews = None
        async with asyncio.timeout(30):
            await opened.application.folders.ingest(
                tmp_path, collection="Folder", user=ANN, embedding="default", yes=True
            )
    assert "1 to be read by a server" in capsys.readouterr().out and elsewhere.documents == []


async def test_another_version_of_a_model_embeds_anew(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'store.db'}"
    async with (
        open_application(Retrieval, BY_WORDS, store=store, embeddings=Elsewhere()) as opened,
        opened.client("ann") as ann,
    ):
        terms = await embedded_collection(ann, "Terms", leave=LEAVE)
        assert await indexes_of(opened, terms) == {"default:words-1"}
    async with (
        open_application(Retrieval, BY_WORDS, store=store, embeddings=Elsewhere("words-2")) as opened,
        asyncio.timeout(30),
    ):
        while await indexes_of(opened, terms) != {"default:words-2"}:
            await asyncio.sleep(0.02)


async def test_a_folder_is_put_for_a_provider_only_if_whoever_puts_it_agrees(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "leave.md").write_text(LEAVE)
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7 nothing")
    said = iter(["n", "y"])
    monkeypatch.setattr("builtins.input", lambda _: next(said))
    elsewhere = Elsewhere()
    async with open_application(Retrieval, BY_WORDS, embeddings=elsewhere) as opened, opened.client("ann") as ann:
        given: dict[str, Any] = {"collection": "Folder", "user": ANN, "embedding": "default"}
        with pytest.raises(SystemExit):
            await opened.application.folders.ingest(tmp_path, **given)
        assert "documents 1, tokens 30, cost unknown" in capsys.readouterr().out
        assert (await ann.get("/collections")).json()["collections"] == []
        # One file can't be read.
        with pytest.raises(SystemExit):
            await opened.application.folders.ingest(tmp_path, **given)
        [folder] = (await ann.get("/collections")).json()["collections"]
        assert folder["embedding"] == "default"
        assert (await settled(ann, folder["id"]))["leave.md"]["is_embedded"]
        # What is there already is not told again, and nobody is asked.
        with pytest.raises(SystemExit):
            await opened.application.folders.ingest(tmp_path, **given, yes=True)
        assert "documents 0, tokens 0" in capsys.readouterr().out
