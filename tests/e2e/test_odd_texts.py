"""Texts of models and tools that no UTF-8 can hold end no exchange: what is shown, stored and given to models is clean.

On both stores, over a real socket, with an agent that pauses too, so that its checkpoints are stored.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from services.mongodb import ON_MONGODB, fresh_database, server_url
from support.chat_client import chat, check_exchange, final_text, is_refusal
from support.odd_texts import ENTRIES, SHOWN
from support.rest_client import messages_of, rest
from support.running_server import RunningServer, running_server

FACE = "\U0001f600"


@pytest.fixture(params=["sqlite", *ON_MONGODB])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RunningServer]:
    if request.param == "sqlite":
        async with running_server(tmp_path, agents=ENTRIES) as server:
            yield server
        return
    async with fresh_database(server_url(request.param, request)) as url:
        async with running_server(
            tmp_path, agents=ENTRIES, settings={"store": {"url": url, "timeout_s": 20}}
        ) as server:
            yield server


def parts_of(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [part for message in events[-1]["messages"] for part in message["parts"] if part["type"] == kind]


async def test_names_of_files_that_are_no_text_are_told_and_the_session_goes_on(server: RunningServer) -> None:
    async with chat(server.address) as client, rest(server) as http:
        session: dict[str, Any] = {}
        for tool, is_ok in (("lists", True), ("fails", False)):
            events = await client.ask(tool, agent_id="odd", **session)
            check_exchange(events)
            session = {"session_id": events[0]["session_id"]}
            assert events[-1]["status"] == "ok"
            assert parts_of(events, "tool_call")[0]["args"] == {"of": FACE}
            [result] = parts_of(events, "tool_result")
            assert (result["ok"], result["content"]) == (is_ok, f"{FACE} {SHOWN}")
            assert final_text(events) == f"It is {FACE} {FACE} {SHOWN}\ufffd"
            if is_ok:
                assert [part["title"] for part in parts_of(events, "link")] == [SHOWN]
                assert {"found": SHOWN} in [event["data"] for event in events if event["type"] == "activity"]
        stored = await messages_of(http, session["session_id"])
        assert stored[-len(events[-1]["messages"]) :] == events[-1]["messages"]
        assert f"Hm {FACE}" in [part["text"] for row in stored if row["channel"] == "thought" for part in row["parts"]]


async def test_an_exception_that_nobody_handles_ends_its_exchange_alone(server: RunningServer) -> None:
    async with chat(server.address) as client:
        events = await client.ask("raises", agent_id="odd")
        check_exchange(events)
        assert events[-1]["status"] == "error"
        events = await client.ask("lists", agent_id="odd", session_id=events[0]["session_id"])
        assert events[-1]["status"] == "ok"


async def test_a_question_about_such_a_file_is_stored_and_answered(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.send({"type": "ask", "message": "asks", "agent_id": "odd"})
        waiting = await client.until("awaiting_human")
        [asked] = waiting["payload"]["requests"]
        assert SHOWN in str(asked) and "\\udc" not in str(asked)
        named = {name: waiting[name] for name in ("session_id", "exchange_id")}
        answers = {asked["interrupt_id"]: "caf\u00e9"}
        await client.send({"type": "human_resume", **named, "payload": {"answers": answers}})
        final = await client.until("final")
        assert final["status"] == "ok"
        assert final_text([final]) == f"It is {FACE} {FACE} caf\u00e9\ufffd"


async def test_half_a_character_of_a_client_is_a_typed_refusal(server: RunningServer) -> None:
    async with chat(server.address) as client, rest(server) as http:
        await client.send('{"type": "ask", "message": "half \\ud83d", "agent_id": "odd"}')
        refused = await client.until("error")
        assert is_refusal(refused) and refused["code"] == "bad_frame"
        session = (await http.post("/sessions", json={"agent_id": "odd"})).json()["id"]
        headers = {"Content-Type": "application/json"}
        for method, path in (("POST", "/sessions"), ("PATCH", f"/sessions/{session}")):
            answer = await http.request(method, path, content='{"title": "half \\ud83d"}', headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_frame")
        assert (await http.get("/sessions", params={"q": b"\xed\xa0\xbd".decode("latin-1")})).status_code < 500
        answer = await http.get("/sessions?q=%ED%A0%BD")
        assert answer.status_code < 500
        files = {"file": ("caf\udce9.txt".encode("utf-8", "surrogateescape").decode("latin-1"), b"text", "text/plain")}
        assert (await http.post("/attachments", files=files)).status_code < 500
