"""Collections and their documents: what is put there is found, by whom it may be, and what is removed by nobody."""

import os
from pathlib import Path

import httpx
from pytest import CaptureFixture, mark
from support.collections_of_documents import FLOOD, LEAVE, collection, found, put, settled
from support.rest_client import error_of

from agentic_backend.application import User
from agentic_backend.applications.retrieval.application import Retrieval
from agentic_backend.testing import OpenedApplication

pytestmark = mark.asyncio(loop_scope="module")


async def test_what_is_put_is_found_with_its_place(ann: httpx.AsyncClient) -> None:
    terms = await collection(ann, "Terms", flood=FLOOD, leave=LEAVE)
    best = (await found(ann, terms, "Is groundwater covered?"))[0]
    assert (best["name"], best["path"]) == ("flood.md", ["Home insurance"])
    document = best["document"]
    text = (await ann.get(f"/collections/{terms}/documents/{document}/text")).json()
    assert text["text"] == FLOOD
    assert "groundwater is never covered" in FLOOD[best["start"] : best["end"]]


async def test_a_file_of_the_same_name_takes_the_place_of_the_one_before(ann: httpx.AsyncClient) -> None:
    terms = await collection(ann, "Terms", leave=LEAVE)
    await put(ann, terms, "leave.md", LEAVE.replace("28 days", "35 days").encode())
    await settled(ann, terms)
    texts = [each["text"] for each in await found(ann, terms, "How many days of leave?")]
    assert any("35 days" in text for text in texts) and not any("28 days" in text for text in texts)


async def test_the_same_content_is_not_read_again(ann: httpx.AsyncClient) -> None:
    terms = await collection(ann, "Terms", leave=LEAVE)
    assert (await put(ann, terms, "leave.md", LEAVE.encode()))["state"] == "ready"


async def test_what_is_removed_is_found_no_more(ann: httpx.AsyncClient) -> None:
    terms = await collection(ann, "Terms", flood=FLOOD, leave=LEAVE)
    flood = (await settled(ann, terms))["flood.md"]["id"]
    assert (await ann.delete(f"/collections/{terms}/documents/{flood}")).status_code == 204
    assert [each["name"] for each in await found(ann, terms, "groundwater leave")] == ["leave.md"]
    assert error_of(await ann.get(f"/collections/{terms}/documents/{flood}/text"))["code"] == "not_found"
    assert (await ann.delete(f"/collections/{terms}")).status_code == 204
    assert error_of(await ann.get(f"/collections/{terms}/search?q=leave"))["code"] == "not_found"
    assert (await ann.get("/collections")).json()["collections"] == []


async def test_nobody_reads_what_is_anothers(opened: OpenedApplication[Retrieval], ann: httpx.AsyncClient) -> None:
    terms = await collection(ann, "Terms", leave=LEAVE)
    document = (await settled(ann, terms))["leave.md"]["id"]
    async with opened.client("eve") as eve:
        tries = [
            await eve.get(f"/collections/{terms}/search?q=leave"),
            await eve.get(f"/collections/{terms}/documents"),
            await eve.get(f"/collections/{terms}/documents/{document}"),
            await eve.get(f"/collections/{terms}/documents/{document}/text"),
            await eve.post(f"/collections/{terms}/documents", files={"file": ("a.md", b"a")}),
            await eve.delete(f"/collections/{terms}/documents/{document}"),
            await eve.put(f"/collections/{terms}", json={"title": "Mine"}),
            await eve.delete(f"/collections/{terms}"),
        ]
        assert {error_of(answer)["code"] for answer in tries} == {"not_found"}
        own = await collection(eve, "Own")
        assert error_of(await eve.get(f"/collections/{own}/documents/{document}/text"))["code"] == "not_found"
    assert len(await found(ann, terms, "leave")) == 1


async def test_a_folder_is_put_whole_but_for_what_can_not_be(
    opened: OpenedApplication[Retrieval], tmp_path: Path, capsys: CaptureFixture[str]
) -> None:
    deep = tmp_path.joinpath(*["folder-of-files" * 10] * 4)
    deep.mkdir(parents=True)
    (deep / "deep.md").write_text(LEAVE)
    (tmp_path / os.fsdecode(b"a\xff.md")).write_text(FLOOD)
    (tmp_path / "large.txt").touch()
    os.truncate(tmp_path / "large.txt", 65 << 20)
    (tmp_path / "z.md").write_text(LEAVE)
    await opened.application.folders.ingest(tmp_path, collection="Folder", user=User("flo", "flo"))
    told = capsys.readouterr().out
    assert all(each in told for each in ("500 characters", "67,108,864 bytes", "put a_.md", "4/4 put z.md"))
    async with opened.client("flo") as flo:
        [folder] = (await flo.get("/collections")).json()["collections"]
        assert {*(await settled(flo, folder["id"]))} == {"a_.md", "z.md"}


async def test_people_see_all_of_a_name(ann: httpx.AsyncClient) -> None:
    terms = await collection(ann, "Terms")
    for name in ("a\u202efdp.md", "a\nb.md"):
        await ann.post(f"/collections/{terms}/documents", files={"file": ("a", b"b")}, params={"name": name})
    assert {*(await settled(ann, terms))} == {"a_fdp.md", "a_b.md"}


@mark.parametrize("name", ["../a.md", "a/../../b.md", "..\\a.md", "/", "."])
async def test_a_name_leads_nowhere_else(ann: httpx.AsyncClient, name: str) -> None:
    terms = await collection(ann, "Terms")
    answer = await ann.post(f"/collections/{terms}/documents", files={"file": ("a", b"b")}, params={"name": name})
    assert error_of(answer)["code"] == "bad_frame"


async def test_what_can_not_be_read_says_why_and_leaves_the_others(ann: httpx.AsyncClient) -> None:
    terms = await collection(ann, "Terms", leave=LEAVE)
    await put(ann, terms, "broken.pdf", b"%PDF-1.7 nothing")
    broken = (await settled(ann, terms))["broken.pdf"]
    assert (broken["state"], bool(broken["reason"])) == ("failed", True)
    assert len(await found(ann, terms, "leave")) == 1
