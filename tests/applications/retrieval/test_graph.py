"""The graph: what documents mention leads from one to another, and goes with them."""

import asyncio
import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from support.collections_of_documents import BY_WORDS, collection, put, settled

from agentic_backend.application import User
from agentic_backend.applications.retrieval import ingestion
from agentic_backend.applications.retrieval.application import Retrieval
from agentic_backend.applications.retrieval.graph.entities import (
    MOST_ENTITIES,
    asked_entities,
    entities_of,
    key_of,
)
from agentic_backend.applications.retrieval.records import OF_USERS
from agentic_backend.applications.retrieval.searching import retriever
from agentic_backend.applications.retrieval.searching.retriever import Chosen
from agentic_backend.testing import OpenedApplication, ScriptedModel, open_application

ZEPHYR = "Our project Zephyr was begun in spring. It is led by Maria Kowalski."
DESK = "Phone extension 4711 belongs to Maria Kowalski."
CANTEEN = "Lunch costs seven euros. Soup costs three."
QUESTION = "Which number reaches whoever heads Zephyr?"
ANN = User("ann", "Ann")


async def found(opened: OpenedApplication[Retrieval], collection_id: str, question: str, *ways: str) -> list[str]:
    """The names of the documents that are found in these ways, the best first."""
    own = await opened.application.library.get(ANN, collection_id)
    retrieved = await opened.application.retriever.retrieve(ANN, question, [own], Chosen(ways))
    assert set(retrieved.ways) == set(ways) and not any(way.failed for way in retrieved.ways.values())
    return [passage.name for passage in retrieved.passages]


async def entities(opened: OpenedApplication[Retrieval]) -> list[str]:
    """All that is stored of what the user's documents mention."""
    page = await opened.application.records_of(OF_USERS.chunks).of_user("ann").find(limit=200)
    return [key for each in page.records for key in each.value.entities.split()]


async def test_what_only_shares_an_entity_with_what_is_asked_for_is_found(database: str) -> None:
    async with open_application(Retrieval, BY_WORDS, store=database) as opened, opened.client("ann") as client:
        staff = await collection(client, "Staff", zephyr=ZEPHYR, desk=DESK, canteen=CANTEEN)
        assert await found(opened, staff, QUESTION, "words") == ["zephyr.md"]
        assert await found(opened, staff, QUESTION, "graph") == ["zephyr.md", "desk.md"]
        answer = (await client.get(f"/collections/{staff}/search", params={"q": QUESTION})).json()
        assert {each["name"]: each["ranks"] for each in answer["passages"]} == {
            "zephyr.md": {"words": 1, "graph": 1},
            "desk.md": {"graph": 2},
        }


async def test_among_many_that_others_find_the_model_is_given_what_the_graph_leads_to() -> None:
    many = {f"other{number}": f"Which number reaches whoever heads office {number}?" for number in range(12)}
    async with open_application(Retrieval, BY_WORDS) as opened, opened.client("ann") as client:
        staff = await collection(client, "Staff", zephyr=ZEPHYR, desk=DESK, **many)
        assert (await found(opened, staff, QUESTION, "words", "graph"))[7] == "desk.md"
        assert "desk.md" not in (await found(opened, staff, QUESTION, "words"))[:8]


async def test_where_it_is_switched_off_the_graph_is_not_searched() -> None:
    async with open_application(Retrieval, {**BY_WORDS, "graph": False}) as opened, opened.client("ann") as client:
        staff = await collection(client, "Staff", zephyr=ZEPHYR, desk=DESK)
        answer = (await client.get(f"/collections/{staff}/search", params={"q": QUESTION})).json()
        assert [each["ranks"] for each in answer["passages"]] == [{"words": 1}]


async def test_where_the_graph_fails_the_others_find(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any) -> None:
        raise ValueError

    async with open_application(Retrieval, BY_WORDS) as opened, opened.client("ann") as client:
        staff = await collection(client, "Staff", zephyr=ZEPHYR)
        monkeypatch.setattr(retriever, "by_hops", broken)
        answer = (await client.get(f"/collections/{staff}/search", params={"q": QUESTION})).json()
        assert [each["ranks"] for each in answer["passages"]] == [{"words": 1}]
        assert answer["failed"] == {"graph": "It is not available."}


async def test_what_is_mentioned_goes_with_its_edition_and_its_document(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_application(Retrieval, BY_WORDS, store=database) as opened, opened.client("ann") as client:
        staff = await collection(client, "Staff", zephyr=ZEPHYR, desk=DESK)
        await put(client, staff, "zephyr.md", b"Our project Mistral is led by Maria Kowalski.")
        documents = await settled(client, staff)
        assert await found(opened, staff, QUESTION, "graph") == []
        asked = "Which number reaches whoever heads Mistral?"
        assert await found(opened, staff, asked, "graph") == ["zephyr.md", "desk.md"]
        # What it has is still stored, and leads nowhere.
        monkeypatch.setattr(ingestion.Ingestion, "_add", lambda self, job: None)
        await client.delete(f"/collections/{staff}/documents/{documents['zephyr.md']['id']}")
        assert key_of("Mistral") in " ".join(await entities(opened))
        assert await found(opened, staff, asked, "graph") == []


async def test_all_forms_of_a_name_are_one_entity(database: str) -> None:
    forms = ["ACME Corp.", "the ACME corporation", "Acme Corporation\u2019s", "\uff21\uff23\uff2d\uff25", "Acme Corp"]
    async with open_application(Retrieval, BY_WORDS, store=database) as opened, opened.client("ann") as client:
        files = {f"d{number}": f"We bought it from {form} plant." for number, form in enumerate(forms)}
        bought = await collection(client, "Bought", **files, canteen=CANTEEN)
        assert {*await entities(opened)} == {key_of("acme")}
        assert len(await entities(opened)) == len(forms)
        assert len(await found(opened, bought, "what do we know of acme?", "graph")) == len(forms)


@pytest.mark.parametrize(
    "forms",
    [
        ("Die Haftpflicht", "der Haftpflicht", "HAFTPFLICHT"),
        ("Müller GmbH & Co. KG", "Mu\u0308ller GmbH", "der Müllers"),
        ("L\u2019Oréal", "l'Oréal SA", "Ore\u0301al"),
        ("the gizmos", "a Gizmo's", "Giz\u00admo"),
        ("the companies", "Company"),
        ("AB-1234", "ab 1234", "AB\u20111234", "AB1234"),
        ("Dr. Maria Kowalski", "maria  kowalski", "Frau Maria Kowalski"),
    ],
)
def test_forms_have_the_same_key(forms: Sequence[str]) -> None:
    assert len({key_of(form) for form in forms}) == 1 and key_of(forms[0])


@pytest.mark.parametrize("name", ["", "7", "x", "-", "\u6771\u4eac", "word " * 30])
def test_what_is_none_has_no_key(name: str) -> None:
    assert key_of(name) is None


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "Today it rained. The Bank of America and ACME's Board sold „green bonds“ to Dr. Kowalski under AB-1234.",
            ["green bonds", "Bank of America", "ACME", "Kowalski", "AB-1234", "Board"],
        ),
        (
            "Täglich gilt: Der Schaden durch Hochwasser ist außerhalb der Zone 4 gedeckt, sagt Maria von der Tann.",
            ["Schaden", "Hochwasser", "Zone", "Maria", "Tann"],
        ),
        ("Hier, la ville de Lyon a payé la Caisse de Paris.", ["Caisse de Paris", "Lyon"]),
        ("東京は日本の首都です。", []),
        ("", []),
    ],
)
def test_entities_are_names_nouns_quoted_terms_and_ids(text: str, names: Sequence[str]) -> None:
    assert sorted(entities_of(text)) == sorted(filter(None, map(key_of, names)))


def test_a_text_has_no_more_entities_than_are_kept() -> None:
    many = " and ".join(f"Mister{chr(97 + one)}{chr(97 + two)} Smith" for one in range(26) for two in range(26))
    assert len(entities_of(many)) == MOST_ENTITIES
    assert len(asked_entities(many)) == 64


async def until_they_have_paid(client: httpx.AsyncClient, calls: int) -> None:
    """Wait until the user's usage has so many calls of models."""
    async with asyncio.timeout(10):
        while True:
            answer = await client.get("http://127.0.0.1/agentic/v1/usage", params={"start": "2026-01-01"})
            if sum(row["calls"] for row in answer.json()["sums"]) == calls:
                return
            await asyncio.sleep(0.02)


def said_by_model(*names: str) -> str:
    said = {"text": 1, "entities": names, "relations": [["Zephyr", "Ada"], ["Zephyr", "Nobody"]]}
    return f"```json\n{json.dumps([said])}\n```"


async def test_a_model_says_what_is_mentioned_and_related_where_one_is_set() -> None:
    model = ScriptedModel(
        said_by_model("The Zephyr", "zephyr", "Ada", "Oslo"), said_by_model("Ada"), said_by_model("Oslo")
    )
    files = {"zephyr": "She began it in the north.", "ada": "She is tall.", "oslo": "It is in the north."}
    async with open_application(Retrieval, {**BY_WORDS, "graph_model": "default"}, model=model) as opened:
        async with opened.client("ann") as client:
            staff = await collection(client, "Staff", **files)
            assert sorted(await entities(opened)) == sorted(map(key_of, ("zephyr", "ada", "ada", "oslo", "oslo")))
            assert await found(opened, staff, "zephyr", "graph") == ["zephyr.md", "ada.md"]
            await until_they_have_paid(client, 3)
    assert model.unsaid == 0 and "She is tall." in str(model.asks[1])


ENDLESS = f'[{{"text": 1, "entities": ["Oslo"], "relations": []{" " * 100_000}}}]'


@pytest.mark.parametrize("said", [None, "Sorry.", '[{"text": 2, "entities": [], "relations": []}]', ENDLESS])
async def test_where_the_model_says_nothing_noun_phrases_do(said: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask_model(system: str, text: str, **more: Any) -> str:
        return said or ""

    # There is no such model.
    async with open_application(Retrieval, {**BY_WORDS, "graph_model": "absent"}) as opened:
        if said is not None:
            monkeypatch.setattr(opened.application, "ask_model", ask_model)
        async with opened.client("ann") as client:
            await collection(client, "Staff", desk=DESK)
            assert await entities(opened) == [key_of("Maria Kowalski")]


async def test_a_model_is_given_what_modules_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []

    async def ask_model(system: str, text: str, **more: Any) -> str:
        given.append(text)
        return "[]"

    async def review(text: str, **more: Any) -> SimpleNamespace:
        return SimpleNamespace(text=text.replace("Kowalski", "[name]"))

    async with open_application(Retrieval, {**BY_WORDS, "graph_model": "clever"}) as opened:
        monkeypatch.setattr(opened.application, "ask_model", ask_model)
        monkeypatch.setattr(opened.application, "review", review)
        async with opened.client("ann") as client:
            await collection(client, "Staff", desk=DESK)
    assert "[name]" in given[0] and "Kowalski" not in given[0]
