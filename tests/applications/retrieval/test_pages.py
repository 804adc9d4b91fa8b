"""The pages of a PDF with the places of a passage, for who may read it."""

from base64 import b64decode
from typing import Any

import pytest
from pytest import MonkeyPatch
from support.collections_of_documents import BY_WORDS, LEAVE, found, put, settled
from support.further_cases import all_but_first
from support.made_documents import a_laid_out_pdf
from support.rest_client import error_of

from agentic_backend.applications.retrieval.application import Retrieval
from agentic_backend.applications.retrieval.library import Library
from agentic_backend.testing import open_application

PDF = a_laid_out_pdf(
    [("Terms", 40.0, 270.0, 18.0, True), ("Nothing of note.", 40.0, 240.0, 10.0, False)],
    [("Leave", 40.0, 270.0, 18.0, True), ("Leave expires on 31 March.", 40.0, 100.0, 10.0, False)],
)


async def test_a_passage_of_a_pdf_stands_on_its_page_in_boxes_of_its_lines() -> None:
    async with (
        open_application(Retrieval, BY_WORDS) as opened,
        opened.client("ann") as ann,
        opened.client("bob") as bob,
    ):
        terms = (await ann.post("/collections", json={"title": "Terms"})).json()["id"]
        await put(ann, terms, "terms.pdf", PDF)
        await put(ann, terms, "leave.md", LEAVE.encode())
        documents = await settled(ann, terms)
        path = f"/collections/{terms}/documents/{documents['terms.pdf']['id']}"
        passage = next(each for each in await found(ann, terms, "expires") if each["name"] == "terms.pdf")
        span = {"start": passage["start"], "end": passage["end"]}
        [place] = [
            each for each in (await ann.get(f"{path}/places", params=span)).json()["places"] if each["page"] == 2
        ]
        assert (place["width"], place["height"]) == (400, 300)
        left, top, right, bottom = place["boxes"][-1]
        # It stands on a line 100 points from below.
        assert 38 < left < 42 and top < 200 < bottom and bottom - top < 15 and right < 200
        image = b64decode((await ann.get(f"{path}/pages/2")).json()["png"])
        assert image.startswith(b"\x89PNG")

        other = f"/collections/{terms}/documents/{documents['leave.md']['id']}"
        assert (await ann.get(f"{other}/places", params=span)).json() == {"places": []}
        for refused in (f"{other}/pages/1", f"{path}/pages/0", f"{path}/pages/x"):
            assert error_of(await ann.get(refused))["code"] == "not_found"
        assert error_of(await ann.get(f"{path}/pages/3"))["code"] == "document_unreadable"
        for call in (bob.get(f"{path}/pages/2"), bob.get(f"{path}/places", params=span)):
            assert error_of(await call)["code"] == "not_found"


@pytest.mark.parametrize("what", all_but_first("pages/2", "places"))
async def test_what_is_no_longer_theirs_once_it_was_read_is_not_told(what: str, monkeypatch: MonkeyPatch) -> None:
    async with open_application(Retrieval, BY_WORDS) as opened, opened.client("ann") as ann:
        terms = (await ann.post("/collections", json={"title": "Terms"})).json()["id"]
        await put(ann, terms, "terms.pdf", PDF)
        [document] = (await settled(ann, terms)).values()

        async def none(self: Library, *given: Any) -> dict[str, Any]:
            return {}

        monkeypatch.setattr(Library, "may_read", none)
        answer = await ann.get(f"/collections/{terms}/documents/{document['id']}/{what}")
        assert error_of(answer)["code"] == "not_found"


async def test_a_file_that_has_taken_its_place_has_no_places_of_the_old_text(monkeypatch: MonkeyPatch) -> None:
    async with open_application(Retrieval, BY_WORDS) as opened, opened.client("ann") as ann:
        terms = (await ann.post("/collections", json={"title": "Terms"})).json()["id"]
        await put(ann, terms, "terms.pdf", PDF)
        [document] = (await settled(ann, terms)).values()
        path = f"/collections/{terms}/documents/{document['id']}/places"
        span = {"end": document["characters"]}
        assert (await ann.get(path, params=span)).json()["places"]
        application: Any = opened.application
        # It waits to be read.
        monkeypatch.setattr(application.ingestion, "add", lambda stored: None)
        await put(ann, terms, "terms.pdf", a_laid_out_pdf([("Something else.", 40.0, 240.0, 10.0, False)]))
        assert (await ann.get(path, params=span)).json() == {"places": []}
