"""Attachments over the wire: uploaded, attached to asks at every door that takes them, fetched, deleted."""

import asyncio
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from services.mongodb import further_on_mongodb
from support.attached_files import a_pdf, a_png, upload, uploaded
from support.chat_client import Event, chat, final_text
from support.hostile_modules import entry
from support.made_documents import a_docx, a_paragraph, a_workbook
from support.rest_client import error_of, messages_of, rest, sse_events
from support.running_server import running_server
from support.seeing_agent import ENTRY
from support.signing_realm import SigningRealm

from agentic_backend.attachments.kinds import DOCX, XLSX
from agentic_backend.stores.base import Store

ANN, BOB = "dev:ann", "dev:bob"
PNG = a_png()
SEEN = f"<image/png {len(b64encode(PNG))}>"
"""What the seeing agent tells of the image."""


def settings(store_url: str, **limits: Any) -> dict[str, Any]:
    return {"store": {"url": store_url}, "limits": limits}


def attached_to(message: dict[str, Any]) -> list[str]:
    return [part["attachment_id"] for part in message["parts"] if part["type"] == "file"]


async def asked(http: httpx.AsyncClient, session_id: str, content: str, *attached: str) -> list[Event]:
    body = {"content": content, "attachments": list(attached)}
    async with http.stream("POST", f"/sessions/{session_id}/messages", json=body) as response:
        assert response.status_code == 200, (await response.aread()).decode()
        return [event async for event in sse_events(response)]


async def test_an_image_is_uploaded_asked_about_and_fetched(store_url: str, tmp_path: Path) -> None:
    async with running_server(tmp_path, settings=settings(store_url)) as server, rest(server, ANN) as http:
        image = await uploaded(http, PNG, "Grün.png")
        assert (image["name"], image["mime"], image["size"]) == ("Grün.png", "image/png", len(PNG))
        assert "session_id" not in image and "text_chars" not in image
        async with chat(server.address, token=ANN) as client:
            events = await client.ask("what is this?", attachments=[image["id"]])
        assert f"I see an image: image/png of {len(PNG)} bytes." in final_text(events)
        session_id = events[0]["session_id"]
        [question, *_] = await messages_of(http, session_id)
        url = f"/agentic/v1/attachments/{image['id']}"
        assert question["parts"] == [
            {"type": "text", "text": "what is this?"},
            {"type": "file", "attachment_id": image["id"], "name": "Grün.png", "mime": "image/png", "size": len(PNG)},
            {"type": "image_url", "url": url, "alt": "Grün.png"},
        ]
        # It stays with the session: also the next answer is given it.
        events = await asked(http, session_id, "and again?", image["id"])
        assert "I see an image" in final_text(events)
        answer = await http.get(f"/attachments/{image['id']}")
        assert answer.content == PNG and answer.headers["content-type"] == "image/png"
        assert (
            answer.headers["content-disposition"] == "attachment; filename=\"Gr_n.png\"; filename*=UTF-8''Gr%C3%BCn.png"
        )
        assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "private, no-cache" and answer.headers["vary"] == "authorization"
        again = await http.get(f"/attachments/{image['id']}", headers={"if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


@further_on_mongodb("store_url")
async def test_texts_and_pdfs_are_read_by_the_model_and_not_shown(store_url: str, tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=[ENTRY], settings=settings(store_url)) as server:
        async with rest(server, ANN) as http:
            text = await uploaded(http, b"Das Wort ist Ampel.\n```\nend", "wort.md")
            pdf = await uploaded(http, a_pdf("The first page", "The second page"), "report.pdf")
            assert (text["mime"], text["text_chars"]) == ("text/plain", 27)
            assert (pdf["mime"], pdf["text_chars"]) == ("application/pdf", 31)
            session_id = (await http.post("/sessions", json={"agent_id": "seeing"})).json()["id"]
            events = await asked(http, session_id, "read this", text["id"], pdf["id"])
            told = final_text(events)
            assert "The attached file 'wort.md':\n\n````\nDas Wort ist Ampel.\n```\nend\n````" in told
            assert "The attached file 'report.pdf':\n\n```\nThe first page\n\nThe second page\n```" in told
            [question, *_] = await messages_of(http, session_id)
            assert [part["type"] for part in question["parts"]] == ["text", "file", "file"]


@further_on_mongodb("store_url")
async def test_the_model_reads_the_files_of_earlier_questions_after_a_restart(store_url: str, tmp_path: Path) -> None:
    for number in range(2):
        async with running_server(tmp_path, agents=[ENTRY], settings=settings(store_url)) as server:
            async with rest(server, ANN) as http:
                if not number:
                    text, image = await uploaded(http, b"The word is Ampel."), await uploaded(http, PNG, "a.png")
                    session_id = (await http.post("/sessions", json={"agent_id": "seeing"})).json()["id"]
                    await asked(http, session_id, "read this", text["id"], image["id"])
                else:
                    told = final_text(await asked(http, session_id, "which word was it?"))
                    assert "The word is Ampel." in told and SEEN in told


async def test_a_run_that_waits_for_a_person_keeps_no_image_and_is_shown_it_again(
    store_url: str, store: Store, tmp_path: Path
) -> None:
    async with running_server(tmp_path, agents=[ENTRY], settings=settings(store_url)) as server:
        async with rest(server, ANN) as http, chat(server.address, token=ANN) as client:
            image = await uploaded(http, PNG)
            await client.send({"message": "pause", "agent_id": "seeing", "attachments": [image["id"]]})
            waiting = await client.until("awaiting_human")
            kept = await store.checkpoint(waiting["exchange_id"])
    assert kept is not None and kept.state is not None
    assert b64encode(PNG) not in kept.state and image["id"].encode() in kept.state
    async with running_server(tmp_path, agents=[ENTRY], settings=settings(store_url)) as server:
        async with chat(server.address, token=ANN) as client:
            [request] = waiting["payload"]["requests"]
            answers = {"answers": {request["interrupt_id"]: "yes"}}
            named = {name: waiting[name] for name in ("session_id", "exchange_id")}
            await client.send({"type": "human_resume", "payload": answers, **named})
            assert SEEN in final_text([await client.until("final")])


@further_on_mongodb("store_url")
async def test_what_a_graph_keeps_refers_to_images(store_url: str, store: Store, tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=[ENTRY], settings=settings(store_url)) as server:
        async with rest(server, ANN) as http, chat(server.address, token=ANN) as client:
            image = await uploaded(http, PNG)
            events = await client.ask("look", agent_id="seeing", attachments=[image["id"]])
            # The warm agent's memory, too, has no image, and gets it anew.
            assert SEEN in final_text(await client.ask("and now?", session_id=events[0]["session_id"]))
    state = await store.session_state(events[0]["session_id"])
    assert state is not None and image["id"].encode() in state and b64encode(PNG) not in state


async def test_more_images_than_a_request_holds_are_named(tmp_path: Path) -> None:
    limits = {"attachment_request_bytes": 1_500}
    async with running_server(tmp_path, agents=[ENTRY], settings={"limits": limits}) as server:
        async with rest(server, ANN) as http, chat(server.address, token=ANN) as client:
            first = await uploaded(http, PNG + bytes(1_000), "first.png")
            second = await uploaded(http, PNG, "second.png")
            events = await client.ask("look", agent_id="seeing", attachments=[first["id"]])
            assert "first.png" not in final_text(events)
            session_id = events[0]["session_id"]
            events = await client.ask("and this?", session_id=session_id, attachments=[second["id"]])
            assert SEEN in final_text(events)
            third = await uploaded(http, PNG + bytes(1_400), "third.png")
            told = final_text(await client.ask("this?", session_id=session_id, attachments=[third["id"]]))
            assert "[The image 'first.png' is not shown to you.]" in told and "third.png" not in told


DOCUMENTS: dict[str, tuple[bytes, str, str, str]] = {
    "brief.docx": (a_docx(a_paragraph("Größen", "Heading1"), a_paragraph("Text.")), DOCX, DOCX, "# Größen\n\nText."),
    "zahlen.xlsx": (a_workbook({"Eins": [["a", "b"], [1, 2]]}), XLSX, XLSX, "| a | b |\n| --- | --- |\n| 1 | 2 |"),
    "seite.html": (b"<html><nav>Menu</nav><h1>A</h1><p>B</p></html>", "text/html", "text/plain", "# A\n\nB"),
    "preise.csv": ("größe;preis\n1;2".encode("cp1252"), "text/plain", "text/plain", "| größe | preis |"),
    "roh.csv": ("größe;preis\n1;2".encode(), "text/plain", "text/plain; charset=utf-8", "größe;preis\n1;2"),
    "notiz.txt": ("größe".encode("utf-16"), "text/plain", "text/plain", "größe"),
}


@pytest.mark.parametrize("name", DOCUMENTS)
async def test_a_document_is_read_by_the_model_and_served_as_it_was_sent(name: str, tmp_path: Path) -> None:
    content, mime, served_as, words = DOCUMENTS[name]
    async with running_server(tmp_path, agents=[ENTRY]) as server:
        async with rest(server, ANN) as http, chat(server.address, token=ANN) as client:
            told = (await http.get("/info")).json()["attachment_types"]
            shown = await uploaded(http, content, name)
            assert shown["mime"] == mime and mime in told
            events = await client.ask("what is said?", attachments=[shown["id"]])
            assert words in final_text(events) and "Menu" not in final_text(events)
            served = await http.get(f"/attachments/{shown['id']}")
            assert served.content == content and served.headers["content-type"] == served_as


@pytest.mark.parametrize("content", [b"", b"\0\1\2", b"\x7fELF\xff", b"PK\x03\x04\xff", b"%PDF-1.7 broken"])
async def test_what_is_no_known_kind_is_refused(content: bytes, tmp_path: Path) -> None:
    async with running_server(tmp_path) as server, rest(server) as http:
        answer = await upload(http, content, "innocent.png")
        assert answer.status_code == 400 and error_of(answer)["content"].startswith("file: ")


async def test_limits_are_told_and_kept(tmp_path: Path) -> None:
    limits = {
        "attachment_bytes": 2_048,
        "attachment_text_chars": 1_000,
        "attachment_pixels": 100,
        "attachments_per_ask": 2,
        "attachments_per_user_bytes": 5_000,
    }
    async with running_server(tmp_path, settings={"limits": limits}) as server, rest(server, ANN) as http:
        told = (await http.get("/info")).json()
        assert {name: told["limits"][name] for name in limits} == limits
        assert "attachments" in told["features"] and "image/png" in told["attachment_types"]
        for content, status, words in (
            (b"x" * 2_049, 413, "larger than the limit of 2048 bytes"),
            (b"x" * 100_000, 413, "larger than the limit of 2048 bytes"),
            (b"x" * 1_001, 400, "1,001 characters; at most 1,000"),
            (a_png(11, 10), 400, "11 x 10 pixels; at most 100"),
            (a_png(0, 1), 400, "0 x 1 pixels"),
            (a_pdf("a" * 1_001), 400, "more than 1,000 characters"),
        ):
            answer = await upload(http, content)
            assert (answer.status_code, words in error_of(answer)["content"]) == (status, True), answer.text
        texts = [await uploaded(http, b"x" * 600) for _ in range(3)]
        async with chat(server.address, token=ANN) as client:
            for attached, words in (
                ([one["id"] for one in texts], "attachments: more than the limit of 2"),
                ([texts[0]["id"]] * 2, "attachments: one is named twice"),
                ([one["id"] for one in texts[:2]], "1,200 characters; at most 1,000"),
            ):
                await client.send({"message": "hi", "attachments": attached})
                refused = await client.until("error")
                assert refused["code"] == "bad_frame" and words in refused["content"]
        images = [await uploaded(http, a_png(10, 10) + bytes(900)) for _ in range(3)]
        full = await upload(http, a_png(10, 10) + bytes(900))
        assert (full.status_code, error_of(full)["code"]) == (409, "limit_reached")
        assert (await http.delete(f"/attachments/{images[0]['id']}")).status_code == 204
        await uploaded(http, a_png(10, 10) + bytes(900))


async def test_what_belongs_to_others_is_not_there(store_url: str, tmp_path: Path) -> None:
    async with running_server(tmp_path, settings=settings(store_url)) as server:
        async with rest(server, ANN) as ann, rest(server, BOB) as bob:
            image = await uploaded(ann, PNG)
            for answer in (
                await bob.get(f"/attachments/{image['id']}"),
                await bob.get("/attachments/absent"),
                await bob.delete(f"/attachments/{image['id']}"),
            ):
                assert (answer.status_code, error_of(answer)["code"]) == (404, "attachment_not_found")
            async with chat(server.address, token=BOB) as client:
                for named in (image["id"], "absent"):
                    await client.send({"message": "what is it?", "attachments": [named]})
                    refused = await client.until("error")
                    assert (refused["code"], refused["content"]) == (
                        "attachment_not_found",
                        "attachments.0: there is no such attachment",
                    )
            assert (await bob.get("/sessions")).json()["sessions"] == []
            assert (await ann.get(f"/attachments/{image['id']}")).content == PNG


@further_on_mongodb("store_url")
async def test_an_attachment_is_of_one_session(store_url: str, tmp_path: Path) -> None:
    async with running_server(tmp_path, settings=settings(store_url)) as server, rest(server, ANN) as http:
        image = await uploaded(http, PNG)
        async with chat(server.address, token=ANN) as client:
            events = await client.ask("what is this?", attachments=[image["id"]])
            await client.send({"message": "and here?", "attachments": [image["id"]]})
            assert (await client.until("error"))["code"] == "attachment_not_found"
        refused = await http.delete(f"/attachments/{image['id']}")
        assert (refused.status_code, error_of(refused)["code"]) == (409, "attachment_sent")
        assert (await http.delete(f"/sessions/{events[0]['session_id']}")).status_code == 204
        assert (await http.get(f"/attachments/{image['id']}")).status_code == 404
        assert await files_in(tmp_path, server.data) == []


async def files_in(*directories: Path) -> list[Path]:
    """What is in the directories of attachments."""
    found = [path for one in directories for path in await asyncio.to_thread(lambda one=one: list(one.rglob("*")))]
    return [path for path in found if "attachments" in path.parts and await asyncio.to_thread(path.is_file)]


async def test_a_refused_ask_gives_its_attachments_back(store_url: str, tmp_path: Path) -> None:
    async with running_server(tmp_path, settings=settings(store_url)) as server, rest(server, ANN) as http:
        image = await uploaded(http, PNG)
        done = (await http.post("/sessions", json={})).json()["id"]
        await http.post(f"/sessions/{done}/complete")
        refused = await http.post(f"/sessions/{done}/messages", json={"content": "?", "attachments": [image["id"]]})
        assert error_of(refused)["code"] == "session_completed"
        async with chat(server.address, token=ANN) as client:
            assert "I see an image" in final_text(await client.ask("?", attachments=[image["id"]]))


async def test_a_repeated_ask_with_attachments_starts_nothing(store_url: str, tmp_path: Path) -> None:
    first: list[Event] = []
    image: dict[str, Any] = {}
    for _ in range(2):
        async with running_server(tmp_path, settings=settings(store_url)) as server, rest(server, ANN) as http:
            image = image or await uploaded(http, PNG)
            async with chat(server.address, token=ANN) as client:
                for _ in range(2):
                    events = await client.ask("what?", attachments=[image["id"]], client_exchange_id="once")
                    first = first or events
                    assert events[-1]["exchange_id"] == first[-1]["exchange_id"]
            assert len((await http.get("/sessions")).json()["sessions"]) == 1


async def test_a_model_without_images_is_given_none(tmp_path: Path) -> None:
    models = {"default": {"model": "offline", "images": False, "options": {"words_per_second": 0}}}
    async with running_server(tmp_path, settings={"models": models}) as server, rest(server, ANN) as http:
        image, text = await uploaded(http, PNG, "cat.png"), await uploaded(http, b"Meow")
        async with chat(server.address, token=ANN) as client:
            await client.send({"message": "hi", "attachments": [text["id"], image["id"]]})
            refused = await client.until("error")
            assert refused["code"] == "bad_frame" and "'cat.png' is an image" in refused["content"]
            assert (await client.ask("hi", attachments=[text["id"]]))[-1]["status"] == "ok"


async def test_a_query_takes_none(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server, rest(server) as http, chat(server.address) as client:
        image = await uploaded(http, PNG)
        await client.send({"message": "hi", "mode": "query", "attachments": [image["id"]]})
        refused = await client.until("error")
        assert refused["code"] == "bad_frame" and "a query keeps nothing" in refused["content"]


async def test_the_export_names_them_and_the_deletion_takes_them(store_url: str, tmp_path: Path) -> None:
    async with running_server(tmp_path, settings=settings(store_url)) as server:
        async with rest(server, ANN) as http, rest(server, BOB) as bob:
            sent, unsent, theirs = await uploaded(http, PNG), await uploaded(http, b"mine"), await uploaded(bob, PNG)
            async with chat(server.address, token=ANN) as client:
                await client.ask("what?", attachments=[sent["id"]])
            lines = [json.loads(line) for line in (await http.get("/me/export")).text.splitlines()]
            rows = {line["row"]["id"]: line["row"] for line in lines if line.get("table") == "attachments"}
            assert set(rows) == {sent["id"], unsent["id"]} and rows[unsent["id"]]["text"] == "mine"
            assert (await http.delete("/me")).status_code == 204
            for one in (sent, unsent):
                assert (await http.get(f"/attachments/{one['id']}")).status_code == 404
            assert (await bob.get(f"/attachments/{theirs['id']}")).content == PNG
            kept = [path.name for path in await files_in(tmp_path)]
            assert kept == ([theirs["id"]] if store_url.startswith("sqlite") else [])


async def test_uploads_of_a_user_are_bounded_in_a_minute(tmp_path: Path) -> None:
    limits = {"uploads_per_minute": 2}
    async with running_server(tmp_path, settings={"limits": limits}) as server:
        async with rest(server, ANN) as ann, rest(server, BOB) as bob:
            for _ in range(2):
                await uploaded(ann, PNG)
            refused = await upload(ann, PNG)
            assert (refused.status_code, error_of(refused)["code"]) == (429, "rate_limited")
            await uploaded(bob, PNG)


async def test_a_token_is_needed(realm: SigningRealm, tmp_path: Path) -> None:
    auth = {"mode": "keycloak", "keycloak": {"realm_url": realm.url}}
    async with running_server(tmp_path, settings={"auth": auth}) as server, rest(server) as http:
        assert (await upload(http, PNG)).status_code == 401
        assert (await http.get("/attachments/x")).status_code == 401


@pytest.mark.parametrize(
    ("before", "told"),
    [("redact", "The word is ***."), ("for_model", "The word is <WORD>."), ("", "The word is secret.")],
)
async def test_modules_see_the_texts_of_files_before_models_do(before: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "modules.yaml"
    file.write_text(yaml.safe_dump({"modules": [entry("first", settings={"before": before})]}))
    options = {"modules": {"file": str(file)}}
    async with running_server(tmp_path, agents=[ENTRY], settings=options) as server, rest(server, ANN) as http:
        text = await uploaded(http, b"The word is secret.", "a.txt")
        session_id = (await http.post("/sessions", json={"agent_id": "seeing"})).json()["id"]
        events = await asked(http, session_id, "Which word?", text["id"])
        assert f"```\n{told}\n```" in final_text(events)
        [question, *_] = await messages_of(http, session_id)
        assert question["parts"][0] == {"type": "text", "text": "Which word?"}


async def test_a_module_that_blocks_a_file_blocks_the_question(tmp_path: Path) -> None:
    file = tmp_path / "modules.yaml"
    file.write_text(yaml.safe_dump({"modules": [entry("first", settings={"before": "block_word"})]}))
    options = {"modules": {"file": str(file)}}
    async with running_server(tmp_path, agents=[ENTRY], settings=options) as server, rest(server, ANN) as http:
        text = await uploaded(http, b"The word is secret.", "a.txt")
        session_id = (await http.post("/sessions", json={"agent_id": "seeing"})).json()["id"]
        events = await asked(http, session_id, "Which word?", text["id"])
        assert events[-1]["status"] == "blocked" and final_text(events) == "That is not said here."


async def test_a_branch_has_the_attachments_of_its_family(store_url: str, tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=[ENTRY], settings=settings(store_url)) as server:
        async with rest(server, ANN) as http:
            image = await uploaded(http, PNG)
            root = (await http.post("/sessions", json={"agent_id": "seeing"})).json()["id"]
            await asked(http, root, "hello")
            await asked(http, root, "look", image["id"])
            anew, on = [(await http.post(f"/sessions/{root}/fork", json={"rank": rank})).json() for rank in (2, 4)]
            # Asked again with the same file, or after it.
            assert SEEN in final_text(await asked(http, anew["id"], "look again", image["id"]))
            assert SEEN in final_text(await asked(http, on["id"], "and now?"))
            own = await uploaded(http, PNG)
            assert SEEN in final_text(await asked(http, on["id"], "this one", own["id"]))
            assert SEEN in final_text(await asked(http, root, "also here", own["id"]))
            assert (await http.delete(f"/sessions/{on['id']}")).status_code == 204
            for each in (image, own):
                assert (await http.get(f"/attachments/{each['id']}")).status_code == 200
            assert (await http.delete(f"/sessions/{root}")).status_code == 204
            for each in (image, own):
                assert (await http.get(f"/attachments/{each['id']}")).status_code == 404
            assert await files_in(tmp_path) == []
