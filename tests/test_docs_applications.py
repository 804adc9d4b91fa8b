"""docs/applications.md: its application is served as the page has it, and answers what the page shows."""

import importlib
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import pytest
import yaml
from langchain_core.embeddings import Embeddings
from support.attached_files import uploaded
from support.chat_client import chat
from support.documents import DOCS, blocks
from support.made_documents import a_docx, a_paragraph, a_word_table
from support.rest_client import error_of, plain_http, rest
from support.running_server import FAST, running_server

from agentic_backend.hosting.loading import GROUP
from agentic_backend.testing import ScriptedEmbeddings, open_application

PAGE = DOCS / "applications.md"
BLOCKS = {
    language: [block.text for block in blocks(PAGE) if block.language == language]
    for language in ("python", "yaml", "sh", "json", "toml")
}


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No other test finds the module: a server also looks for modules beside its catalog, to its end."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    for name in (
        "house_words",
        "house_notes",
        "house_library",
        "house_answers",
        "sketches",
        "house_board",
        "house_ranks",
        "house_meanings",
        "house_files",
    ):
        sys.modules.pop(name, None)


def written(source: str, directory: Path, monkeypatch: pytest.MonkeyPatch, name: str = "house_words") -> None:
    """Write the application's module, which is found from now on."""
    (directory / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(directory)


async def test_the_first_application_answers_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [source, *_], [settings, _], [call, _], [found, missing] = (
        BLOCKS[name] for name in ("python", "yaml", "sh", "json")
    )
    written(source, tmp_path, monkeypatch)
    async with running_server(tmp_path, settings=yaml.safe_load(settings)) as server, plain_http() as http:
        url = call.split()[-1].replace("localhost:8000", server.address)
        assert (await http.get(url)).json() == yaml.safe_load(found)
        refused = (await http.get(url.replace("/run", "/walk"))).json()
    refused["error"]["request_id"] = "…"
    assert refused == yaml.safe_load(missing)


async def test_its_test_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, *_, test = BLOCKS["python"]
    written(source, tmp_path, monkeypatch)
    names: dict[str, Any] = {}
    exec(test, names)
    await names["test_a_term_has_its_meaning"]()


async def test_its_records_are_kept_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(BLOCKS["python"][1], tmp_path, monkeypatch, "house_notes")
    notes = importlib.import_module("house_notes").HouseNotes
    async with open_application(notes) as opened, opened.client("ann") as ann, opened.client("bob") as bob:
        assert (await ann.post("/notes", json={"text": "mine", "topic": "a"})).status_code == 204
        assert (await bob.get("/notes?topic=a")).json()["texts"] == {}
        [(key, text)] = (await bob.get("/everybodys?topic=a")).json()["texts"].items()
        assert text == "mine"
        assert (await bob.delete(f"/notes/{key}")).status_code == 404
        assert (await ann.delete(f"/notes/{key}")).status_code == 204
        assert (await ann.get("/notes?topic=a")).json() == {"texts": {}, "next_cursor": None}


async def test_its_library_is_searched_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(BLOCKS["python"][2], tmp_path, monkeypatch, "house_library")
    library = importlib.import_module("house_library").HouseLibrary
    passages = {"en": "two boats by the sea", "de-AT": "die Häuser am Meer", "fr": "une maison à la mer"}
    async with open_application(library) as opened, opened.client("ann") as ann, opened.client("bob") as bob:
        for language, text in passages.items():
            passage = {"text": text, "book": "sea", "language": language}
            assert (await ann.post("/passages", json=passage)).status_code == 204
        for words, language in {"boat": "en", "Haus": "de-AT", "maisons": "fr"}.items():
            assert (await ann.get(f"/passages?words={words}&book=sea")).json() == {"texts": [passages[language]]}
            assert (await ann.get(f"/passages?words={words}&book=land")).json() == {"texts": []}
            assert (await bob.get(f"/passages?words={words}&book=sea")).json() == {"texts": []}


class Letters(Embeddings):
    """Embeds texts by how often each letter is in them."""

    def embed_query(self, text: str) -> list[float]:
        return [float(text.lower().count(letter)) for letter in ascii_lowercase]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


async def test_its_answers_are_found_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(BLOCKS["python"][3], tmp_path, monkeypatch, "house_answers")
    module = importlib.import_module("house_answers")
    monkeypatch.setattr(module, "init_embeddings", lambda name: Letters())
    async with open_application(module.HouseAnswers) as opened, opened.client("ann") as ann:
        for question, answer in {"Where is the key?": "At the door.", "Who pays?": "All."}.items():
            kept = await ann.post("/answers", json={"question": question, "answer": answer})
            assert kept.status_code == 204
        assert (await ann.get("/answers?question=where are keys")).json()["answers"][0] == "At the door."
        assert (await ann.get("/answers?question=zz")).json() == {"answers": []}


async def test_its_sketches_are_shown_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(BLOCKS["python"][4], tmp_path, monkeypatch, "sketches")
    artist = {
        "id": "artist",
        "class_path": "agentic_backend.experts.assistant.assistant:Assistant",
        "tools": ["sketches:draw"],
    }
    settings = {**FAST, "applications": [{"class_path": "sketches:Sketches"}]}
    async with running_server(tmp_path, agents=[artist], settings=settings) as server, chat(server.address) as client:
        final = (await client.ask('use the tool draw with {"title": "a boat"}', agent_id="artist"))[-1]
    shown = [part for message in final["messages"] for part in message["parts"] if part["type"] == "custom"]
    [part] = shown
    assert part["kind"] == "sketches:sketch" and f"`{part['kind']}`" in PAGE.read_text()
    assert (part["data"]["title"], part["text"]) == ("a boat", "A sketch of **a boat**.")


async def test_its_texts_are_ranked_in_a_process_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [source] = [each for each in BLOCKS["python"] if "class HouseRanks" in each]
    written(source, tmp_path, monkeypatch, "house_ranks")
    ranks = importlib.import_module("house_ranks").HouseRanks
    async with open_application(ranks) as opened, opened.client("ann") as ann:
        asked = {"query": "the sea", "texts": ["a wood", "the sea shore", "the house"]}
        assert (await ann.post("/ranks", json=asked)).json() == {"texts": ["the sea shore", "the house"]}


async def test_its_own_model_embeds_until_another_is_set_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [source] = [each for each in BLOCKS["python"] if "class HouseMeanings" in each]
    written(source, tmp_path, monkeypatch, "house_meanings")
    meanings = importlib.import_module("house_meanings").HouseMeanings
    asked = {"query": "a boat", "texts": ["two trees", "the boat", "zzz"]}
    for embeddings, model in ((None, "letters-1"), (ScriptedEmbeddings(), "ScriptedEmbeddings")):
        async with open_application(meanings, embeddings=embeddings) as opened, opened.client("ann") as ann:
            found = (await ann.post("/nearest", json=asked)).json()
        assert found["text"] == "the boat" and model in found["model"]


async def test_its_files_are_read_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [source] = [each for each in BLOCKS["python"] if "class HouseFiles" in each]
    written(source, tmp_path, monkeypatch, "house_files")
    settings = {**FAST, "applications": [{"class_path": "house_files:HouseFiles"}]}
    table = a_word_table([["a", "b"], ["1", "2"]])
    docx = a_docx(a_paragraph("Boats", "Heading1"), a_paragraph("Table 1: Ours", "Caption"), table)
    async with running_server(tmp_path, settings=settings) as server, rest(server, "dev:ann") as ann:
        sent = await uploaded(ann, docx, "boats.docx")
        async with chat(server.address, token="dev:ann") as client:
            session = (await client.ask("what is this?", attachments=[sent["id"]]))[-1]["session_id"]
        url = f"{server.address}/apps/house-files/sessions/{session}"
        async with plain_http() as http:
            told = (await http.get(url, headers={"authorization": "Bearer dev:ann"})).json()
            assert told == {"titles": {"boats.docx": ["# Boats", "Table 1: Ours"]}, "unread": {}}
            others = await http.get(url, headers={"authorization": "Bearer dev:bob"})
            assert error_of(others)["code"] == "session_not_found"


def test_the_entry_point_is_the_one_that_is_read() -> None:
    [text] = BLOCKS["toml"]
    assert list(tomllib.loads(text)["project"]["entry-points"]) == [GROUP]
