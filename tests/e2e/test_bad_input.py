"""Whatever a client sends and an agent does, the client gets a typed error, loses nothing, and can go on.

Every case asks over a real socket, reads back by REST, and looks into the log under the error's request id.
"""

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support import wire_agents
from support.chat_client import ChatClient, Event, chat, check_exchange, final_text, is_refusal, text_of
from support.rest_client import messages_of, rest
from support.running_server import RunningServer, running_server
from support.test_agents import ENTRIES
from websockets.exceptions import ConnectionClosed

AGENTS = [*ENTRIES, *wire_agents.ENTRIES]
# A developer is told at which line an agent holds up the event loop, which on a slow machine is any.
UNWATCHED = {"blocking_s": None}
# Long enough that nothing else falls silent for so long, though the machine stands still for some seconds.
IMPATIENT = {
    "agents": {"build_timeout_s": 4, **UNWATCHED},
    "limits": {"model_timeout_s": 4, "tool_timeout_s": 4},
}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path, agents=AGENTS, settings={"agents": UNWATCHED}) as server:
        yield server


@pytest.fixture
async def impatient_server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server that waits four seconds at most for agents, models and tools."""
    async with running_server(tmp_path, agents=AGENTS, settings=IMPATIENT) as server:
        yield server


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


def logged(log: pytest.LogCaptureFixture, error: dict[str, Any]) -> list[logging.LogRecord]:
    """What the log says about an error: something, and with its code."""
    records = [record for record in log.records if getattr(record, "request_id", None) == error["request_id"]]
    assert error["code"] in [getattr(record, "code", None) for record in records]
    return records


async def check_goes_on(client: ChatClient, session_id: str | None = None) -> None:
    """The socket is usable, and the session too where one is named."""
    await client.send({"type": "ping"})
    await client.until("pong")
    fields = {"session_id": session_id} if session_id else {}
    events = await client.ask("repeat after me: it goes on", agent_id="assistant", **fields)
    check_exchange(events)
    assert final_text(events) == "it goes on"


# Frames that are refused

REFUSED: list[tuple[str, Any, str, str]] = [
    ("not JSON", "hello", "bad_frame", ""),
    ("half of a frame", '{"type": "ask", "message"', "bad_frame", ""),
    ("a list", "[]", "bad_frame", ""),
    ("bytes", b"\x00\xff", "bad_frame", ""),
    ("an empty frame", "", "bad_frame", ""),
    ("an unknown type", {"type": "shout", "message": "hello"}, "bad_frame", "type:"),
    ("a wrong type", {"type": "ask", "message": 5}, "bad_frame", "message:"),
    ("an unknown field", {"type": "ask", "message": "hello", "wizard": 1}, "bad_frame", "wizard:"),
    ("no message", {"type": "ask"}, "bad_frame", "message:"),
    ("a megabyte of text", {"message": "x" * 1_000_000}, "message_too_large", "message:"),
    ("an unknown agent", {"type": "ask", "message": "hello", "agent_id": "nothing"}, "agent_not_found", ""),
    ("a disabled agent", {"type": "ask", "message": "hello", "agent_id": "disabled"}, "agent_not_found", ""),
    ("a class path to nothing", {"message": "hello", "agent_id": "no-such-class"}, "agent_unavailable", ""),
    ("no session", {"type": "ask", "message": "hello", "session_id": "nothing"}, "session_not_found", ""),
    ("a follow of nothing", {"type": "follow"}, "bad_frame", "session_id:"),
    ("an answer to nothing", {"type": "human_resume", "session_id": "s", "exchange_id": "e"}, "bad_frame", "payload:"),
]


@pytest.mark.parametrize(("frame", "code", "names"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
async def test_a_frame_that_is_refused(
    server: RunningServer, log: pytest.LogCaptureFixture, frame: Any, code: str, names: str
) -> None:
    async with chat(server.address) as client, rest(server) as http:
        await client.send(frame)
        refused = await client.receive()
        assert is_refusal(refused)
        assert refused["code"] == code
        assert refused["content"].startswith(names)
        assert refused["retryable"] is (code == "agent_unavailable")
        assert refused.get("refused") == (frame.get("type", "ask") if isinstance(frame, dict) else None)
        assert [record.levelname for record in logged(log, refused)] == ["INFO"]
        assert (await http.get("/sessions")).json() == {"sessions": []}, "nothing is stored of it"
        await check_goes_on(client)


async def test_another_users_session(server: RunningServer, log: pytest.LogCaptureFixture) -> None:
    async with chat(server.address, token="dev:alice") as alice, chat(server.address, token="dev:bob") as bob:
        session_id = (await alice.ask("hello", agent_id="echo"))[-1]["session_id"]
        [refused] = await bob.ask("hello", session_id=session_id)
        assert (refused["code"], refused["session_id"]) == ("session_not_found", session_id)
        logged(log, refused)
        await check_goes_on(bob)
        async with rest(server, "dev:alice") as http:
            assert len(await messages_of(http, session_id)) == 2


async def test_a_completed_session(server: RunningServer, log: pytest.LogCaptureFixture) -> None:
    async with chat(server.address) as client, rest(server) as http:
        session_id = (await client.ask("hello", agent_id="echo"))[-1]["session_id"]
        await http.post(f"/sessions/{session_id}/complete")
        refused = (await client.ask("hello", session_id=session_id))[-1]
        assert (refused["code"], refused["retryable"]) == ("session_completed", False)
        logged(log, refused)
        assert len(await messages_of(http, session_id)) == 2
        await check_goes_on(client)


async def test_an_ask_while_one_runs(server: RunningServer, log: pytest.LogCaptureFixture) -> None:
    async with chat(server.address) as client, rest(server) as http:
        await client.send({"message": "hang after 20 tokens"})
        session_id = (await client.until("started"))["session_id"]
        await client.send({"message": "hello", "session_id": session_id})
        refused = await client.until("error")
        assert (refused["code"], refused["retryable"]) == ("session_busy", True)
        logged(log, refused)
        assert len(await messages_of(http, session_id)) == 1
        await client.send({"type": "stop", "session_id": session_id})
        assert (await client.until("final"))["status"] == "stopped"
        await check_goes_on(client, session_id)


async def test_a_frame_beyond_the_limit_closes_with_1009_and_what_runs_goes_on(server: RunningServer) -> None:
    async with chat(server.address) as client:
        started = await client.running("hang after 20 tokens", words=20)
        await client.send({"message": "x" * 2_200_000})
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                await client.receive()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009
    async with chat(server.address) as client:
        await client.send({"type": "stop", "session_id": started["session_id"]})
        final = await client.until("final")
        assert (final["status"], len(final_text([final]).split())) == ("stopped", 20)
        await check_goes_on(client, started["session_id"])


async def test_a_hundred_bad_frames_in_a_row(server: RunningServer) -> None:
    async with chat(server.address) as client:
        for number in range(100):
            await client.send(REFUSED[number % 10][1])
        for _ in range(100):
            assert is_refusal(await client.receive())
        await check_goes_on(client)


# Exchanges that fail


async def failed(client: ChatClient, log: pytest.LogCaptureFixture, **ask: Any) -> list[Event]:
    """The events of an exchange that fails; what holds for every failure is checked."""
    message = ask.setdefault("message", "hello")
    events = await client.ask(**ask)
    check_exchange(events)
    final = events[-1]
    assert final["status"] == "error"
    error = {name: events[-2][name] for name in ("code", "content", "whose", "retryable", "request_id")}
    # The test's user is a developer. Of an error that no exception caused, there is no detail.
    detail = {"detail": events[-2]["detail"]} if "detail" in events[-2] else {}
    assert final["error"] == error | detail
    noted = final["messages"][-1]
    assert (noted["role"], noted["channel"], text_of(noted)) == ("system", "error", error["content"])
    assert noted["metadata"]["extras"] == {"code": error["code"], "request_id": error["request_id"]}
    assert text_of(final["messages"][0]) == message, "the user's message is kept"
    [ended] = [record for record in logged(log, error) if record.getMessage() == "exchange ended"]
    assert ended.levelname == "WARNING"
    names = {"code": error["code"], "exchange_id": final["exchange_id"], "session_id": final["session_id"]}
    assert names.items() <= vars(ended).items()
    told = str(events).replace(str(detail.get("detail")), "").replace(message, "")
    for word in ("secret", "Error", "Traceback", "Exception", ".py"):
        assert word not in told, "no exception's text reaches others"
    return events


async def check_kept(server: RunningServer, events: list[Event]) -> None:
    """REST gives back exactly what the exchange's final had, and how it ended."""
    final = events[-1]
    async with rest(server) as http:
        assert await messages_of(http, final["session_id"]) == final["messages"]
        record = (await http.get(f"/exchanges/{final['exchange_id']}")).json()
        assert (record["status"], record["error"]) == ("error", final["error"])
        session = (await http.get(f"/sessions/{final['session_id']}")).json()
        assert "active_exchange_id" not in session


FAILING = [
    ("an agent that raises in async_init", {"agent_id": "fails-in-init"}, "agent_unavailable"),
    ("a graph that raises", {"agent_id": "raising"}, "internal"),
    ("a graph without messages", {"agent_id": "no-messages"}, "agent_unavailable"),
    ("a model that fails at once", {"message": "fail at once"}, "model_error"),
]


@pytest.mark.parametrize(("ask", "code"), [case[1:] for case in FAILING], ids=[case[0] for case in FAILING])
async def test_an_exchange_that_fails_before_its_first_word(
    server: RunningServer, log: pytest.LogCaptureFixture, ask: dict[str, str], code: str
) -> None:
    async with chat(server.address) as client:
        events = await failed(client, log, **ask)
        assert events[-1]["error"]["code"] == code
        assert events[-1]["error"]["retryable"] is True
        assert [event["type"] for event in events] == ["started", "stream", "stream", "error", "final"]
        raised = [record for record in logged(log, events[-1]["error"]) if record.exc_info]
        assert [record.getMessage() for record in raised] == ["exchange failed"]
        await check_kept(server, events)
        await check_goes_on(client, events[-1]["session_id"])


SAID = [
    ("a model that fails after 50 tokens", {"message": "fail after 50 tokens"}, "model_error", 50),
    ("an agent that raises in its stream", {"agent_id": "breaks-in-the-middle"}, "internal", 60),
]


@pytest.mark.parametrize(("ask", "code", "words"), [case[1:] for case in SAID], ids=[case[0] for case in SAID])
async def test_an_exchange_that_fails_in_the_middle_keeps_what_was_said(
    server: RunningServer, log: pytest.LogCaptureFixture, ask: dict[str, str], code: str, words: int
) -> None:
    async with chat(server.address) as client:
        events = await failed(client, log, **ask)
        assert events[-1]["error"]["code"] == code
        said = final_text(events)
        assert len(said.split()) == words
        assert said == "".join(event["text"] for event in events if event["type"] == "delta")
        [answer] = [message for message in events[-1]["messages"] if text_of(message) == said]
        assert answer["metadata"]["finish_reason"] == "other"
        await check_kept(server, events)
        await check_goes_on(client, events[-1]["session_id"])


SILENT = [
    ("an agent that hangs in async_init", {"agent_id": "hangs-in-init"}, "agent_unavailable", 0),
    ("a model that hangs", {"message": "hang forever"}, "model_timeout", 0),
    ("a model that hangs after 20 tokens", {"message": "hang after 20 tokens"}, "model_timeout", 20),
    ("a tool that hangs", {"agent_id": "silent-tool", "message": "call silent()"}, "limit_reached", 0),
]


@pytest.mark.parametrize(("ask", "code", "words"), [case[1:] for case in SILENT], ids=[case[0] for case in SILENT])
async def test_an_exchange_that_falls_silent_is_ended(
    impatient_server: RunningServer, log: pytest.LogCaptureFixture, ask: dict[str, str], code: str, words: int
) -> None:
    async with chat(impatient_server.address) as client:
        events = await failed(client, log, **ask)
        assert events[-1]["error"]["code"] == code
        if words:
            assert len(final_text(events).split()) == words
        await check_kept(impatient_server, events)
        await check_goes_on(client, events[-1]["session_id"])


async def test_texts_that_no_frame_can_hold_are_mended(server: RunningServer) -> None:
    async with chat(server.address) as client:
        events = await client.ask("hello", agent_id="strange-texts")
        check_exchange(events)
        async with rest(server) as http:
            assert await messages_of(http, events[-1]["session_id"]) == events[-1]["messages"]
        await check_goes_on(client, events[-1]["session_id"])


async def test_other_exchanges_do_not_feel_a_failure(server: RunningServer, log: pytest.LogCaptureFixture) -> None:
    async with chat(server.address) as client, chat(server.address) as other:
        await client.send({"message": "hang after 20 tokens"})
        running = await client.until("started")
        for ask in ({"agent_id": "raising"}, {"agent_id": "fails-in-init"}, {"message": "fail after 50 tokens"}):
            await failed(other, log, **ask)
        await client.send({"type": "stop", "session_id": running["session_id"]})
        assert (await client.until("final"))["status"] == "stopped"
        check_exchange([event for event in client.events if "seq" in event])
