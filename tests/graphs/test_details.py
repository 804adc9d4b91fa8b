"""What an author is told of an exception, and nobody else: its class, its text without secrets, the author's line."""

import inspect
import io
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from graphs import raising
from graphs.raising import ENTRIES
from support.chat_client import Event, chat, check_exchange
from support.rest_client import rest, sse_events
from support.running_server import RunningServer, running_server
from support.signing_realm import CLIENT, signing_realm

from agentic_backend.telemetry import JsonFormatter

FILE = "tests/graphs/raising.py"
UNREADABLE = "agentic_backend.disclosure.readable_errors.UnreadableError"


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths are told relative to the working directory."""
    monkeypatch.chdir(Path(__file__).parents[2])


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path, agents=ENTRIES) as server:
        yield server


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """What the server logs at the usual level."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonFormatter())
    ours = logging.getLogger("agentic_backend")
    level = ours.level
    logging.getLogger().addHandler(handler)
    ours.setLevel(logging.INFO)
    yield written
    logging.getLogger().removeHandler(handler)
    ours.setLevel(level)


def line_in(function: Callable[..., Any], words: str) -> str:
    """The line of a function of the graphs that has these words, as authors are told of it."""
    lines, first = inspect.getsourcelines(function)
    [offset] = [number for number, line in enumerate(lines) if words in line]
    return f"{FILE}:{first + offset} in {function.__name__}"


def told(events: list[Event]) -> dict[str, Any]:
    """The detail of a failed exchange, the same in its error and its final."""
    check_exchange(events)
    assert events[-1]["status"] == "error"
    place = ("type", "session_id", "exchange_id", "seq")
    error = {name: value for name, value in events[-2].items() if name not in place}
    assert error == events[-1]["error"]
    detail: dict[str, Any] = error["detail"]
    assert set(detail) == {"type", "text", "where"}
    assert "detail" not in str(events[-1]["messages"]) and detail["text"] not in str(events[-1]["messages"])
    return detail


def failures(log: io.StringIO) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    return [line for line in lines if "exception" in line]


@pytest.mark.parametrize(
    ("way", "kind", "text", "function", "words"),
    [
        ("plain", "graphs.raising.DeskClosed", "the desk is closed", raising.plain, "raise"),
        ("derived", "graphs.raising.Misconfigured", "no user id", raising.derived, "raise"),
        ("caused", "LookupError", "no desk", raising.caused, "raise LookupError"),
        ("library", "json.decoder.JSONDecodeError", "Expecting property name", raising.library, "loads"),
        ("quoting my words", "ValueError", "can't read 'quoting my words'", raising.quoting, "raise"),
        ("uncaused", UNREADABLE, "graphs.raising.Uncaused", raising.uncaused, "raise"),
        # LangGraph adds a note to it first.
        ("closed", "RuntimeError", "not today", raising.Closed.__getattribute__, "raise"),
        ("group", "graphs.raising.DeskClosed", "the desk is closed", raising.plain, "raise"),
    ],
)
async def test_an_author_is_told_the_class_the_text_and_the_line(
    server: RunningServer, way: str, kind: str, text: str, function: Callable[..., Any], words: str
) -> None:
    async with chat(server.address) as client:
        detail = told(await client.ask(way, agent_id="raising"))
    assert detail["type"] == kind
    assert detail["text"].startswith(text)
    assert detail["where"] == line_in(function, words)


async def test_an_agent_that_cant_be_built_is_told_with_the_line_of_its_init(server: RunningServer) -> None:
    async with chat(server.address) as client:
        events = await client.ask("hello", agent_id="fails-to-start")
    assert told(events) == {
        "type": "graphs.raising.DeskClosed",
        "text": "the desk is closed",
        "where": line_in(raising.plain, "raise"),
    }
    assert events[-1]["error"]["code"] == "agent_unavailable"


async def test_an_ask_for_a_module_that_cant_be_imported_is_refused_with_its_line(server: RunningServer) -> None:
    detail = {"type": "RuntimeError", "text": "no licence", "where": "tests/graphs/raising_at_import.py:3"}
    async with chat(server.address) as client:
        [refused] = await client.ask("hello", agent_id="fails-to-import")
    assert (refused["code"], refused["whose"], refused["detail"]) == ("agent_unavailable", "external", detail)
    async with rest(server) as http:
        response = await http.post("/sessions", json={"agent_id": "fails-to-import"})
        error = response.json()["error"]
        assert (error["code"], error["whose"], error["detail"]) == ("agent_unavailable", "external", detail)
    async with chat(server.address, subprotocols=None) as client:
        [refused] = await client.ask("hello", agent_id="fails-to-import")
        assert refused["detail"] == detail


async def test_secrets_and_tokens_are_left_out_and_long_texts_cut(server: RunningServer) -> None:
    async with chat(server.address, token="dev:wombatfruit") as client:
        detail = told(await client.ask("secret", agent_id="raising"))
        assert "refused" in detail["text"]
        assert "quokkaberry" not in detail["text"] and "abcdefgh" not in detail["text"]
        detail = told(await client.ask("token", agent_id="raising"))
        assert "the token was" in detail["text"] and "wombatfruit" not in detail["text"]
        detail = told(await client.ask("unprintable", agent_id="raising"))
        assert len(detail["text"]) <= 2_000


async def test_a_refusal_leaves_out_the_secrets_of_models_and_servers(tmp_path: Path) -> None:
    notes = {"transport": "stdio", "command": "notes", "env": {"NOTES_TOKEN": "no licence"}}
    async with running_server(tmp_path, agents=ENTRIES, settings={"mcp_servers": {"notes": notes}}) as server:
        async with chat(server.address) as client:
            [refused] = await client.ask("hello", agent_id="fails-to-import")
        async with rest(server) as http:
            response = await http.post("/sessions", json={"agent_id": "fails-to-import"})
        for detail in (refused["detail"], response.json()["error"]["detail"]):
            assert detail["text"] == "[redacted]"


async def test_every_way_to_read_an_exchange_tells_its_author_the_same(server: RunningServer) -> None:
    async with chat(server.address) as client:
        events = await client.ask("plain", agent_id="raising")
        detail, exchange_id = told(events), events[-1]["exchange_id"]
        assert told(await client.ask("plain", agent_id="raising", mode="query")) == detail
    async with chat(server.address) as reader:
        await reader.send({"type": "follow", "exchange_id": exchange_id, "session_id": events[-1]["session_id"]})
        assert (await reader.until("final"))["error"]["detail"] == detail
    async with chat(server.address, subprotocols=None) as client:
        error = (await client.ask("plain", agent_id="raising"))[-1]
        assert error["detail"] == (await client.until("final"))["error"]["detail"] == detail
    async with rest(server) as http:
        session = (await http.post("/sessions", json={"agent_id": "raising"})).json()["id"]
        async with http.stream("POST", f"/sessions/{session}/messages", json={"content": "plain"}) as response:
            assert told([event async for event in sse_events(response)]) == detail
        assert (await http.get(f"/exchanges/{exchange_id}")).json()["error"]["detail"] == detail


async def test_a_run_that_went_on_after_a_decision_tells_its_author_too(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.send({"message": "asking", "agent_id": "raising"})
        asked = await client.until("awaiting_human")
        answers = {asked["payload"]["requests"][0]["interrupt_id"]: "yes"}
        place = {name: asked[name] for name in ("session_id", "exchange_id")}
        await client.send({"type": "human_resume", **place, "payload": {"answers": answers}})
        final = await client.ended()
    assert final["error"]["detail"]["where"] == line_in(raising.plain, "raise")


async def test_of_several_users_only_admins_are_told(tmp_path: Path) -> None:
    async with signing_realm() as realm:
        settings = {"auth": {"mode": "keycloak", "keycloak": {"realm_url": realm.url, "client_id": CLIENT}}}
        async with running_server(tmp_path, agents=ENTRIES, settings=settings) as server:
            async with chat(server.address, token=realm.sign()) as client:
                events = await client.ask("plain", agent_id="raising")
                [refused] = await client.ask("plain", agent_id="fails-to-import")
            check_exchange(events)
            assert events[-1]["error"]["code"] == "internal" and refused["code"] == "agent_unavailable"
            assert "detail" not in str([*events, refused]) and "desk" not in str([*events, refused])
            async with rest(server, realm.sign()) as http:
                stored = (await http.get(f"/exchanges/{events[-1]['exchange_id']}")).json()
                assert "detail" not in stored["error"]
            admin = realm.sign(sub="root-id", realm_access={"roles": ["admin"]})
            async with chat(server.address, token=admin) as client:
                assert told(await client.ask("plain", agent_id="raising"))["text"] == "the desk is closed"
                assert (await client.ask("plain", agent_id="fails-to-import"))[0]["detail"]["text"] == "no licence"


async def test_the_log_tells_a_failure_once_with_its_text_and_its_causes(
    server: RunningServer, log: io.StringIO
) -> None:
    async with chat(server.address) as client:
        for agent_id in ("raising", "fails-to-start"):
            await client.ask("caused", agent_id=agent_id)
    caused, started = failures(log)
    assert [told["type"] for told in caused["exception"]] == ["builtins.LookupError", "graphs.raising.DeskClosed"]
    assert [told["text"] for told in caused["exception"]] == ["no desk", "the desk is closed"]
    assert "raising.py" in caused["exception"][0]["at"][-1]
    assert caused["where"] == line_in(raising.caused, "raise LookupError")
    assert started["where"] == line_in(raising.plain, "raise")
    assert "graphs.raising.DeskClosed" in [told["type"] for told in started["exception"]]


async def test_the_log_leaves_out_what_people_said_and_keeps_what_the_program_says(
    server: RunningServer, log: io.StringIO
) -> None:
    async with chat(server.address) as client:
        events = await client.ask("my cat is called quokkaberry", agent_id="raising")
        session_id = events[0]["session_id"]
        await client.ask("quoting wombatfruit, read my lips", agent_id="raising", session_id=session_id)
    [failure] = failures(log)
    assert failure["exception"][0]["text"] == "can't read '… …, read … …'"
    logging.getLogger("agentic_backend").setLevel(logging.DEBUG)
    async with chat(server.address) as client:
        await client.ask("quoting wombatfruit", agent_id="raising")
        await client.ask("secret", agent_id="raising")
    assert failures(log)[1]["exception"][0]["text"] == "can't read 'quoting wombatfruit'"
    assert "quokkaberry" not in log.getvalue(), "secrets are left out at every level"


async def test_the_log_leaves_out_what_people_said_in_any_form(server: RunningServer, log: io.StringIO) -> None:
    async with chat(server.address) as client:
        await client.ask("distorting \nquokkaberry 5550199 wömbat स्ते", agent_id="raising")
        await client.send({"message": "hearing", "agent_id": "raising"})
        asked = await client.until("awaiting_human")
        answers = {asked["payload"]["requests"][0]["interrupt_id"]: "plinthgaze 4711"}
        place = {name: asked[name] for name in ("session_id", "exchange_id")}
        await client.send({"type": "human_resume", **place, "payload": {"answers": answers}})
        await client.ended()
    distorted, heard = (failure["exception"][0]["text"] for failure in failures(log))
    assert distorted.startswith("can't read '") and heard == "can't read … …"
    said = set(distorted.replace("can't read", "")) - set("…'\"\\ \n")
    assert said == set(), said


async def test_the_log_says_where_a_sessions_past_came_from(tmp_path: Path, log: io.StringIO) -> None:
    agents, place = [*ENTRIES, {"id": "other", "class_path": "graphs.raising:graph"}], {}
    for asked in (["raising", "raising", "other"], ["raising", "raising"]):
        async with running_server(tmp_path, agents=agents) as server, chat(server.address) as client:
            for agent_id in asked:
                events = await client.ask("hello", agent_id=agent_id, **place)
                place = {"session_id": events[0]["session_id"]}
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    restored = [line for line in lines if line["message"] == "session restored"]
    assert [line["restore"] for line in restored] == ["warm", "cold", "cold", "warm"]
    assert [line["rows"] for line in restored] == [0, 4, 6, 0], "as many as were read"
    for line in restored:
        assert line["window"] == 20 and line["ms"] >= 0 and line["exchange_id"]
