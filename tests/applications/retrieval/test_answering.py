"""Answers from documents, over sockets: what is found goes into the prompt, what is cited is shown, and no more."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest_asyncio
from pytest import MonkeyPatch, mark
from support.chat_client import chat
from support.collections_of_documents import BY_WORDS, FLOOD, LEAVE, PATH, collection, serving, settled
from support.rest_client import error_of, plain_http
from support.running_server import FAST, RunningServer, running_server

from agentic_backend.applications.retrieval.answering import pipeline

pytestmark = mark.asyncio(loop_scope="module")

AGENTS: list[dict[str, Any]] = [
    {"id": "plain"},
    {"id": "corpus", "tuning": {"retrieval": {"collections": "all", "mode": "corpus_only"}}},
    {"id": "named", "tuning": {"retrieval": {"collections": ["Staff rules"]}}},
    {"id": "attached", "tuning": {"retrieval": {}}},
    {"id": "strict", "tuning": {"retrieval": {"collections": "all", "judge": "withhold", "judge_threshold": 0.9}}},
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: Any) -> AsyncIterator[RunningServer]:
    settings = {
        **FAST,
        "applications": [{"class_path": PATH, "settings": BY_WORDS}],
        "auth": {"developer": {"groups": ["staff"]}},
    }
    async with running_server(tmp_path_factory.mktemp("server"), agents=AGENTS, settings=settings) as server:
        async with documents(server) as client:
            await serving(client)
        yield server


def documents(server: RunningServer, user: str = "ann") -> httpx.AsyncClient:
    return plain_http(
        base_url=f"{server.address}/apps/retrieval", headers={"authorization": f"Bearer dev:{user}"}, timeout=60
    )


async def answered(server: RunningServer, text: str, agent_id: str, user: str = "ann", **more: Any) -> dict[str, Any]:
    async with chat(server.address, token=f"dev:{user}") as client:
        final: dict[str, Any] = (await client.ask(text, agent_id=agent_id, **more))[-1]
        return final


def text_of(final: dict[str, Any]) -> str:
    return "".join(part.get("text", "") for part in final["messages"][-1]["parts"])


def sources_of(final: dict[str, Any]) -> list[tuple[str, str]]:
    parts = final["messages"][-1]["parts"]
    return [(part["source_id"], part["file_name"]) for part in parts if part.get("kind") == "citation"]


async def test_an_answer_rests_on_what_was_found_and_cites_it(server: RunningServer) -> None:
    async with documents(server, "bea") as client:
        await collection(client, "Terms", flood=FLOOD, leave=LEAVE)
    final = await answered(server, "Is damage by groundwater covered?", "documents", "bea")
    assert "Damage by groundwater is never covered. [1]" in text_of(final)
    assert sources_of(final)[0] == ("1", "flood.md")
    plain = await answered(server, "Is damage by groundwater covered?", "plain", "bea")
    assert "never covered" not in text_of(plain) and not sources_of(plain)


async def test_every_turn_asks_and_a_follow_up_is_looked_for_with_what_was_said_before(server: RunningServer) -> None:
    async with documents(server, "cid") as client:
        await collection(client, "Terms", flood=FLOOD, leave=LEAVE)
    async with chat(server.address, token="dev:cid") as client:
        first = (await client.ask("How many days of paid leave?", agent_id="documents"))[-1]
        session_id = first["messages"][0]["session_id"]
        second = (await client.ask("And when it is not taken?", agent_id="documents", session_id=session_id))[-1]
    assert "28 days" in text_of(first) and "31 March" in text_of(second)


async def test_an_agent_asks_what_its_entry_names_and_the_conversation_has(server: RunningServer) -> None:
    async with documents(server, "dan") as client:
        terms = await collection(client, "Terms", flood=FLOOD)
        await collection(client, "Staff rules", leave=LEAVE)
        question = "What of groundwater, and of paid leave?"
        named = await answered(server, question, "named", "dan")
        assert {name for _, name in sources_of(named)} == {"leave.md"}
        async with chat(server.address, token="dev:dan") as talk:
            final = (await talk.ask(question, agent_id="attached"))[-1]
            assert not sources_of(final)
            session_id = final["messages"][0]["session_id"]
            attached = await client.put(f"/sessions/{session_id}/collections", json={"collections": [terms]})
            assert [each["id"] for each in attached.json()["collections"]] == [terms]
            final = (await talk.ask(question, agent_id="attached", session_id=session_id))[-1]
            assert {name for _, name in sources_of(final)} == {"flood.md"}
        turn = (await client.get(f"/sessions/{session_id}/turn")).json()
        told = json.loads(turn["told"])
        [passage] = told["passages"]
        assert (passage["name"], passage["collection_id"]) == ("flood.md", terms) and "words" in told["ways"]
    async with documents(server, "eve") as eve:
        for call in (eve.get(f"/sessions/{session_id}/turn"), eve.get(f"/sessions/{session_id}/collections")):
            assert error_of(await call)["code"] == "session_not_found"


async def test_files_of_a_conversation_are_asked_in_every_turn_and_go_with_it(server: RunningServer) -> None:
    async with documents(server, "lea") as client, chat(server.address, token="dev:lea") as talk:
        files = {"file": ("leave.md", (LEAVE + "\n\n# More\n\n" + FLOOD * 3).encode())}
        attached = (await client.post(f"{server.address}/agentic/v1/attachments", files=files)).json()["id"]
        final = (await talk.ask("Hello", agent_id="attached", attachments=[attached]))[-1]
        session_id = final["messages"][0]["session_id"]
        async with asyncio.timeout(30):
            while not sources_of(final):
                final = (await talk.ask("paid leave?", agent_id="attached", session_id=session_id))[-1]
        assert {name for _, name in sources_of(final)} == {"leave.md"}
        # Another conversation does not ask them.
        assert not sources_of((await talk.ask("paid leave?", agent_id="attached"))[-1])
        deleted = await client.delete(f"{server.address}/agentic/v1/sessions/{session_id}")
        assert deleted.status_code == 204
    stored = b"".join(file.read_bytes() for file in server.data.glob("*.db*"))
    assert session_id.encode().hex().encode() not in stored


async def test_what_is_cited_of_a_conversations_own_file_its_owner_alone_reads(server: RunningServer) -> None:
    async with documents(server, "noa") as client, chat(server.address, token="dev:noa") as talk:
        attached = await client.post(f"{server.address}/agentic/v1/attachments", files={"file": ("a.md", LEAVE)})
        final = (await talk.ask("Hello", agent_id="attached", attachments=[attached.json()["id"]]))[-1]
        session_id = final["messages"][0]["session_id"]
        async with asyncio.timeout(30):
            while not sources_of(final):
                final = (await talk.ask("paid leave?", agent_id="attached", session_id=session_id))[-1]
        cited = next(part for part in final["messages"][-1]["parts"] if part.get("kind") == "citation")["panel_data"]
        # It stands in messages, which are exported and shared.
        assert "28 days" not in json.dumps(cited)
        assert "28 days" in (await client.post("/preview", json=cited)).json()["text"]
        behind = await client.post("/preview", json=cited | {"start": 10**6, "end": 10**6 + 9})
        assert error_of(behind)["code"] == "not_found"
        path = f"/collections/{cited['collection']}/documents/{cited['document']}/text"
        place = {"start": cited["start"], "end": cited["end"], "session": session_id}
        text = (await client.get(path, params=place)).json()
        assert "28 days" in text["text"] and text["edition"] == cited["edition"]
    async with documents(server, "eve") as eve:
        for call in (eve.post("/preview", json=cited), eve.get(path, params=place)):
            assert error_of(await call)["code"] == "session_not_found"


async def test_what_is_kept_of_a_turn_is_of_the_answer_not_of_the_sessions_title(server: RunningServer) -> None:
    async with documents(server, "lou") as client:
        await collection(client, "Terms", flood=FLOOD)
        question = "Is damage by groundwater covered?"
        final = await answered(server, question, "documents", "lou")
        session_id = final["messages"][0]["session_id"]
        async with asyncio.timeout(30):
            while (await client.get(f"{server.address}/agentic/v1/sessions/{session_id}")).json()["title"] == question:
                await asyncio.sleep(0.02)
        told = json.loads((await client.get(f"/sessions/{session_id}/turn")).json()["told"])
        [sentence] = [each for each in told["judge"]["sentences"] if each["reason"] != "needs_none"]
        assert sentence["text"].endswith("Damage by groundwater is never covered. [1]") and sentence["supported"]


async def test_that_nothing_was_found_is_kept_too(server: RunningServer) -> None:
    async with documents(server, "mia") as client:
        await collection(client, "Terms", flood=FLOOD)
        final = await answered(server, "zebra", "documents", "mia")
        turn = (await client.get(f"/sessions/{final['messages'][0]['session_id']}/turn")).json()
        told = json.loads(turn["told"])
        assert (turn["exchange_id"], told["passages"]) == (final["messages"][0]["exchange_id"], [])
        assert told["ways"]["words"]["found"] == 0


async def test_the_corpus_alone_says_that_it_does_not_know_and_asks_no_model(server: RunningServer) -> None:
    async with documents(server, "fay") as client:
        await collection(client, "Terms", flood=FLOOD)
    final = await answered(server, "fail at once, zebra", "corpus", "fay")
    assert (final["status"], text_of(final)) == ("ok", "I find nothing about this in the documents.")
    # The client may ask otherwise.
    asked = {"retrieval": {"mode": "general_only"}}
    final = await answered(server, "echo groundwater", "corpus", "fay", runtime_context=asked)
    assert (text_of(final), sources_of(final)) == ("groundwater", [])
    # What is no mode is none.
    final = await answered(server, "zebra", "corpus", "fay", runtime_context={"retrieval": {"mode": ["general_only"]}})
    assert text_of(final) == "I find nothing about this in the documents."


async def test_citations_of_nothing_are_removed(server: RunningServer) -> None:
    async with documents(server, "gus") as client:
        await collection(client, "Terms", flood=FLOOD)
    final = await answered(server, "echo Groundwater is never covered [1][7].", "documents", "gus")
    assert text_of(final).startswith("Groundwater is never covered [1].")
    assert [number for number, _ in sources_of(final)] == ["1"]


async def test_what_the_documents_do_not_support_is_withheld_where_the_entry_says_so(server: RunningServer) -> None:
    async with documents(server, "hal") as client:
        await collection(client, "Terms", flood=FLOOD)
    untrue = "echo Groundwater is covered up to 90,000 euros in zone 9 [1]."
    final = await answered(server, untrue, "strict", "hal")
    assert (final["status"], "90,000" in text_of(final)) == ("blocked", False)
    async with documents(server, "hal") as client:
        turn = (await client.get(f"/sessions/{final['messages'][0]['session_id']}/turn")).json()
    assert "90,000" not in json.dumps(json.loads(turn["told"])["judge"])
    final = await answered(server, untrue, "documents", "hal")
    assert "not supported by the documents" in text_of(final)


async def test_members_of_a_group_ask_what_is_shared_with_it_as_long_as_it_is(server: RunningServer) -> None:
    async with documents(server, "ivy") as ivy, documents(server, "jan") as jan:
        shared = await collection(ivy, "Ours", "staff", leave=LEAVE)
        assert [each["is_own"] for each in (await jan.get("/collections")).json()["collections"]] == [False]
        assert "28 days" in text_of(await answered(server, "paid leave?", "documents", "jan"))
        document = (await settled(jan, shared))["leave.md"]["id"]
        assert error_of(await jan.delete(f"/collections/{shared}/documents/{document}"))["code"] == "not_found"
        refused = await ivy.put(f"/collections/{shared}", json={"title": "Ours", "shared_with": "board"})
        assert error_of(refused)["code"] == "forbidden"
        await ivy.put(f"/collections/{shared}", json={"title": "Ours"})
        assert "28 days" not in text_of(await answered(server, "paid leave?", "documents", "jan"))
        assert error_of(await jan.get(f"/collections/{shared}/documents/{document}/text"))["code"] == "not_found"
        assert "28 days" in text_of(await answered(server, "paid leave?", "documents", "ivy"))


async def test_the_own_door_answers_beside_the_agents(server: RunningServer) -> None:
    async with documents(server, "leo") as client:
        await collection(client, "Terms", flood=FLOOD)
        asked = {"query": "Is damage by groundwater covered?", "mode": "chat", "session_id": None}
        run = (await client.post(f"{server.address}/api/run", json=asked)).json()
        assert "Damage by groundwater is never covered. [1]" in run["answer"]["text"]
        stream = await client.get(f"{server.address}{run['sse_endpoint']}")
        assert stream.headers["content-type"].startswith("text/event-stream")
        events = [line.partition(": ")[2] for line in stream.text.splitlines() if line.startswith("event: ")]
        assert (events[0], events[-1]) == ("chat_session_created", "run_ended")


async def test_nothing_of_a_user_is_left_behind(server: RunningServer) -> None:
    async with documents(server, "kim") as client:
        await collection(client, "Terms", leave=LEAVE)
        assert (await client.delete(f"{server.address}/agentic/v1/me")).status_code == 204
        assert (await client.get("/collections")).json()["collections"] == []
    assert b"kim".hex().encode() not in b"".join(file.read_bytes() for file in server.data.glob("*.db*"))


async def test_what_was_done_for_an_answer_shows_no_passage_that_is_theirs_no_more(server: RunningServer) -> None:
    async with documents(server, "nia") as nia, documents(server, "oli") as oli:
        shared = await collection(nia, "Leave", "staff", leave=LEAVE)
        final = await answered(server, "echo paid leave", "documents", "oli")
        turn = f"/sessions/{final['messages'][0]['session_id']}/turn"
        [passage] = json.loads((await oli.get(turn)).json()["told"])["passages"]
        assert "28 days" in passage["text"]
        await nia.put(f"/collections/{shared}", json={"title": "Leave"})
        [passage] = json.loads((await oli.get(turn)).json()["told"])["passages"]
        assert (passage["name"], passage["text"]) == ("leave.md", None)
        exported = await oli.get(f"{server.address}/agentic/v1/me/export")
        assert exported.status_code == 200 and "28 days" not in exported.text


async def test_the_title_of_a_conversation_is_not_judged(server: RunningServer) -> None:
    async with documents(server, "pia") as client:
        await collection(client, "Terms", flood=FLOOD)
        final = await answered(server, "echo Groundwater in zone 9 costs 90,000 euros [1].", "documents", "pia")
        session = f"{server.address}/agentic/v1/sessions/{final['messages'][0]['session_id']}"
        async with asyncio.timeout(30):
            while (title := (await client.get(session)).json()["title"]).startswith("echo"):
                await asyncio.sleep(0.02)
    assert "supported" in text_of(final) and "supported" not in title


async def test_what_can_not_be_judged_is_checked_all_the_same_and_withheld_where_the_entry_says_so(
    server: RunningServer, monkeypatch: MonkeyPatch
) -> None:
    async with documents(server, "ron") as client:
        await collection(client, "Terms", flood=FLOOD)
    monkeypatch.setattr(pipeline, "judge", lambda *_, **__: 1 / 0)
    told = "echo Groundwater is never covered [1][7]."
    assert text_of(await answered(server, told, "documents", "ron")) == "Groundwater is never covered [1]."
    assert (await answered(server, told, "strict", "ron"))["status"] == "blocked"
