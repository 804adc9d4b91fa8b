"""The TypeScript client against real servers: what it asks, decides and stops, over connections that break."""

import signal
from pathlib import Path

import pytest
from support import approval_agents, fault_agents, paced_agent
from support.approval_agents import calls
from support.chat_client import check_exchange, final_text
from support.paced_agent import ASK, WORDS, Pace, first_words
from support.ports import free_port
from support.rest_client import messages_of, rest
from support.running_server import RunningServer, running_server
from support.server_process import serving
from support.tcp_line import line_to
from support.typescript_client import Consumer, Line, TypescriptClient, typescript_client

from agentic_backend.offline.phrases import lorem

pytestmark = pytest.mark.typescript


async def assert_transcript_is_stored(client: TypescriptClient, server: RunningServer, session_id: str) -> None:
    """What the events of a session add up to is what is stored, and nothing is still being written."""
    exchanges = await exchanges_of(client)
    shown = [message for exchange in exchanges for message in exchange["messages"]]
    async with rest(server) as http:
        assert shown == await messages_of(http, session_id)
    assert all(exchange["final"] and not exchange["blocks"] for exchange in exchanges)


async def exchanges_of(client: TypescriptClient) -> list[Line]:
    told = await client.answer("transcript")
    exchanges: list[Line] = told["transcript"]["exchanges"]
    return exchanges


async def test_an_answer_comes_event_by_event_and_adds_up_to_what_is_stored(
    client: TypescriptClient, chat_server: RunningServer
) -> None:
    await client.tell("ask", **{"as": "first", "message": "my name is Zorblax"})
    events = await client.ended("first")
    check_exchange(events)
    session_id = events[0]["session_id"]
    await client.tell("ask", **{"as": "second", "message": "what is my name?", "fields": {"session_id": session_id}})
    assert "Zorblax" in final_text(await client.ended("second"))
    calling = "What time is it in Tokyo, and what is 12*34?"
    await client.tell("ask", **{"as": "third", "message": calling, "fields": {"session_id": session_id}})
    assert "408" in final_text(await client.ended("third"))
    await assert_transcript_is_stored(client, chat_server, session_id)


async def test_files_are_uploaded_and_attached_to_an_ask(client: TypescriptClient, chat_server: RunningServer) -> None:
    attached = await client.answer("upload", **{"as": "file", "name": "Größe.txt", "text": "The word is Ampel."})
    assert (attached["name"], attached["mime"], attached["text_chars"]) == ("Größe.txt", "text/plain", 18)
    fields = {"attachments": [attached["id"]]}
    await client.tell("ask", **{"as": "first", "message": "my name is Zorblax", "fields": fields})
    [_, *events] = await client.ended("first")
    files = [part for part in events[-1]["messages"][0]["parts"] if part["type"] == "file"]
    assert [file["attachment_id"] for file in files] == fields["attachments"]
    await assert_transcript_is_stored(client, chat_server, events[-1]["session"]["id"])
    refused = await client.answer("upload", **{"as": "bad", "name": "a.png", "text": "\0"})
    assert refused["failed"] == "bad_frame"


async def test_a_session_is_forked_and_goes_on_in_both(client: TypescriptClient, chat_server: RunningServer) -> None:
    fields = {"agent_id": "echo"}
    await client.tell("ask", **{"as": "first", "message": "one", "fields": fields})
    [_, *events] = await client.ended("first")
    root = events[-1]["session"]["id"]
    branch = await client.answer("fork", **{"as": "branch", "session_id": root, "rank": 0})
    assert branch["parent"] == {"session_id": root, "rank": 0}
    await client.tell("ask", **{"as": "second", "message": "two", "fields": {"session_id": branch["id"]}})
    [_, *events] = await client.ended("second")
    assert events[-1]["session"]["id"] == branch["id"] and events[-1]["messages"][0]["rank"] == 0
    async with rest(chat_server) as http:
        assert len(await messages_of(http, root)) == 2
    refused = await client.answer("fork", **{"as": "bad", "session_id": root, "rank": 1})
    assert refused["failed"] == "bad_frame"


async def test_a_session_is_rated_exported_and_shared(client: TypescriptClient) -> None:
    await client.tell("ask", **{"as": "first", "message": "my name is Zorblax"})
    [_, *events] = await client.ended("first")
    session_id = events[-1]["session"]["id"]
    kept = await client.answer("keep", **{"as": "kept", "session_id": session_id})
    assert "> my name is Zorblax" in kept["text"]
    assert (kept["open"], kept["ranks"], kept["closed"]) == ([True], [0, 1], "not_found")


async def test_a_failed_exchange_adds_up_to_what_is_stored(
    client: TypescriptClient, chat_server: RunningServer
) -> None:
    await client.tell("ask", **{"as": "it", "message": "hello", "fields": {"agent_id": "raising"}})
    events = await client.ended("it")
    check_exchange(events)
    assert events[-1]["status"] == "error"
    [exchange] = await exchanges_of(client)
    assert exchange["error"]["code"] == events[-1]["error"]["code"]
    await assert_transcript_is_stored(client, chat_server, events[0]["session_id"])


async def test_exchanges_of_many_sessions_go_on_at_once(client: TypescriptClient) -> None:
    asked = [f"my name is Zorblax{number}" for number in range(8)]
    for message in asked:
        await client.tell("ask", **{"as": message, "message": message})
    exchanges = set()
    for message in asked:
        events = await client.ended(message)
        check_exchange(events)
        assert message.split()[-1] in final_text(events)
        exchanges.update(event["exchange_id"] for event in events if "seq" in event)
    assert len(exchanges) == len(asked)


async def test_what_needs_approval_waits_for_its_decisions(
    client: TypescriptClient, chat_server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(approval_agents.NOTES_VARIABLE, str(tmp_path / "notes"))
    emails = [("send_email", {"to": name}) for name in ("ann", "bob", "cec")]
    await client.tell("ask", **{"as": "it", "message": calls(*emails), "fields": {"agent_id": "approving"}})
    waiting = await client.event("it", "awaiting_human")
    first, second, third = [request for request in waiting["payload"]["requests"]]

    forged = [{"request": {**first, "args_sha256": "0" * 64}, "decision": {"action": "approve"}}]
    refused = await client.answer("decide", **{"as": "forged", "event": waiting, "made": forged})
    assert (refused["failed"], refused["code"]) == ("Refused", "approval_mismatch")

    made = [
        {"request": first, "decision": {"action": "approve"}},
        {"request": second, "decision": {"action": "reject", "message": "not bob"}},
    ]
    taken = await client.answer("decide", **{"as": "some", "event": waiting, "made": made})
    assert "failed" not in taken
    assert "ended" not in str(client.lines), "the exchange waits for the rest"
    made = [{"request": third, "decision": {"action": "edit", "args": {"to": "dan"}}}]
    taken = await client.answer("decide", **{"as": "rest", "event": waiting, "made": made})
    assert "failed" not in taken
    events = await client.ended("it")
    assert events[-1]["status"] == "ok"
    assert {args["to"] for _, args in approval_agents.runs(tmp_path / "notes")} == {"ann", "dan"}
    await assert_transcript_is_stored(client, chat_server, events[0]["session_id"])


async def test_a_question_gets_its_answer(client: TypescriptClient, chat_server: RunningServer) -> None:
    await client.tell("ask", **{"as": "it", "message": "hello", "fields": {"agent_id": "inquiring"}})
    waiting = await client.event("it", "awaiting_human")
    [request] = waiting["payload"]["requests"]
    made = [{"request": request, "decision": {"action": "answer", "answer": "Zorblax"}}]
    await client.tell("decide", **{"as": "answer", "event": waiting, "made": made})
    events = await client.ended("it")
    assert "Zorblax" in final_text(events)
    await assert_transcript_is_stored(client, chat_server, events[0]["session_id"])


async def test_a_decision_that_was_on_its_way_when_the_connection_broke_counts_once(
    consumer: Consumer, chat_server: RunningServer
) -> None:
    async with line_to(chat_server.address) as line, typescript_client(consumer, line.address) as client:
        await client.tell("ask", **{"as": "it", "message": "hello", "fields": {"agent_id": "inquiring"}})
        waiting = await client.event("it", "awaiting_human")
        [request] = waiting["payload"]["requests"]
        made = [{"request": request, "decision": {"action": "answer", "answer": "Zorblax"}}]
        await line.hold()
        await client.tell("decide", **{"as": "answer", "event": waiting, "made": made})
        line.release()
        assert "failed" not in await client.until(lambda line: line.get("from") == "answer")
        assert "Zorblax" in final_text(await client.ended("it"))


async def test_an_exchange_can_be_stopped(client: TypescriptClient, chat_server: RunningServer, pace: Pace) -> None:
    await client.tell("ask", **{"as": "it", "message": ASK, "fields": {"agent_id": "paced"}})
    pace.write(3)
    await client.until_written("it", first_words(3))
    await client.tell("stop", **{"as": "it"})
    events = await client.ended("it")
    assert (events[-1]["status"], final_text(events).split()) == ("stopped", first_words(3).split())
    await assert_transcript_is_stored(client, chat_server, events[0]["session_id"])


async def test_an_exchange_that_is_stopped_before_the_server_has_heard_of_it_stops(client: TypescriptClient) -> None:
    await client.tell("ask", **{"as": "it", "message": ASK, "fields": {"agent_id": "paced"}})
    await client.tell("stop", **{"as": "it"})
    assert (await client.ended("it"))[-1]["status"] == "stopped"


async def test_an_ask_that_the_server_does_not_take_fails_with_its_reason(client: TypescriptClient) -> None:
    await client.tell("ask", **{"as": "it", "message": "hello", "fields": {"agent_id": "nobody"}})
    failed = await client.failed("it")
    assert (failed["failed"], failed["code"]) == ("Refused", "agent_not_found")


async def test_an_answer_goes_on_where_the_connection_broke(
    consumer: Consumer, chat_server: RunningServer, pace: Pace
) -> None:
    async with line_to(chat_server.address) as line, typescript_client(consumer, line.address) as client:
        await client.tell("ask", **{"as": "it", "message": ASK, "fields": {"agent_id": "paced"}})
        for words in (10, 20, 30):
            pace.write(10)
            await client.until_written("it", first_words(words))
            await line.cut()
        pace.write(10)
        await client.until_written("it", first_words(40))
        pace.finish()
        events = await client.ended("it")
        seqs = [event["seq"] for event in events]
        assert seqs == sorted(set(seqs)), "nothing comes twice"
        assert final_text(events) == client.written("it") == lorem(WORDS), "nothing is lost"
        await assert_transcript_is_stored(client, chat_server, events[0]["session_id"])


async def test_what_is_asked_while_there_is_no_connection_is_asked_once(
    consumer: Consumer, chat_server: RunningServer
) -> None:
    async with line_to(chat_server.address) as line, typescript_client(consumer, line.address) as client:
        await client.until(lambda line: line.get("phase") == "open")
        await line.hold()
        await client.until(lambda line: line.get("phase") == "reconnecting")
        await client.tell("ask", **{"as": "it", "message": "my name is Zorblax"})
        line.release()
        check_exchange(await client.ended("it"))
        async with rest(chat_server) as http:
            assert len((await http.get("/sessions")).json()["sessions"]) == 1


async def test_what_json_can_not_write_is_refused_at_once_and_holds_nothing_up(
    consumer: Consumer, chat_server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(approval_agents.NOTES_VARIABLE, str(tmp_path / "notes"))
    async with line_to(chat_server.address) as line, typescript_client(consumer, line.address) as client:
        fields = {"agent_id": "approving"}
        await client.tell("ask", **{"as": "it", "message": calls(("send_email", {"to": "ann"})), "fields": fields})
        waiting = await client.event("it", "awaiting_human")
        [request] = waiting["payload"]["requests"]
        await line.hold()
        await client.until(lambda line: line.get("phase") == "reconnecting")
        told = await client.answer("unwritable", **{"as": "odd", "event": waiting, "request": request})
        assert told["failures"] == ["TypeError", "TypeError"]
        await client.tell("ask", **{"as": "next", "message": "my name is Zorblax"})
        line.release()
        check_exchange(await client.ended("next"))
        made = [{"request": request, "decision": {"action": "approve"}}]
        assert "failed" not in await client.answer("decide", **{"as": "some", "event": waiting, "made": made})
        assert (await client.ended("it"))[-1]["status"] == "ok"
    assert [args["to"] for _, args in approval_agents.runs(tmp_path / "notes")] == ["ann"]


async def test_an_answer_whose_server_was_killed_ends_interrupted_with_what_was_kept(
    consumer: Consumer, tmp_path: Path
) -> None:
    fault_agents.write_catalog(tmp_path)
    port = free_port()
    async with serving("--port", port, cwd=tmp_path) as first, typescript_client(consumer, first.address) as client:
        await client.tell("ask", **{"as": "it", "message": "note a|words 400 50"})
        await client.until(lambda _: len(client.written("it").split()) > 20)
        await first.stop(signal.SIGKILL)
        async with serving("--port", port, cwd=tmp_path) as second:
            # Now, and not when its wait is over.
            await client.tell("connect")
            events = await client.ended("it")
            assert events[-1]["status"] == "interrupted"
            server = RunningServer(second.address, second.internal or "", tmp_path)
            await assert_transcript_is_stored(client, server, events[0]["session_id"])
            await client.tell("ask", **{"as": "next", "message": "words 5 0"})
            assert final_text(await client.ended("next")) == fault_agents.words(5)


async def test_a_query_is_answered_and_leaves_no_session(client: TypescriptClient, chat_server: RunningServer) -> None:
    await client.tell("ask", **{"as": "it", "message": "what is 2 + 3?", "fields": {"mode": "query"}})
    events = await client.ended("it")
    assert events[0]["session_id"] is None and final_text(events)
    async with rest(chat_server) as http:
        assert (await http.get("/sessions")).json()["sessions"] == []


async def test_an_ask_beyond_the_limit_waits_until_it_may_be_asked(
    consumer: Consumer, tmp_path: Path, pace: Pace
) -> None:
    async with (
        running_server(tmp_path, agents=[paced_agent.ENTRY], settings={"limits": {"max_running": 1}}) as server,
        typescript_client(consumer, server.address) as client,
    ):
        await client.tell("ask", **{"as": "first", "message": ASK, "fields": {"agent_id": "paced"}})
        await client.event("first", "started")
        await client.tell("ask", **{"as": "second", "message": "my name is Zorblax"})
        pace.finish()
        await client.ended("first")
        check_exchange(await client.ended("second"))
