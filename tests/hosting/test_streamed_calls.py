"""Events that applications stream: their form, how they end, and that what goes wrong is one event."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from openapi_spec_validator import validate
from support import streaming_application
from support.rest_client import error_of, plain_http
from support.running_server import running_server
from support.streaming_application import Done, Step, Streaming

from agentic_backend.agents.code.class_path import ClassPathError
from agentic_backend.agents.run.authors_calls import AuthorsCalls
from agentic_backend.application import Application, ApplicationUnavailable, Call, User, Value
from agentic_backend.auth.developer import DeveloperAuthenticator
from agentic_backend.hosting.declared_calls import declared_calls
from agentic_backend.hosting.event_streams import AuthorsEvents, Border
from agentic_backend.relay.drain import Drain
from agentic_backend.testing import open_application

FIRST = ("step", {"type": "step", "name": "first \u2028 line"})


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    settings = {"applications": [{"class_path": streaming_application.PATH}], "limits": {"sockets_per_user": 2}}
    async with running_server(tmp_path, settings=settings) as server:
        async with plain_http(base_url=server.address) as client:
            await _serves(client)
            yield client


async def _serves(client: httpx.AsyncClient) -> None:
    async with asyncio.timeout(10):
        while (await client.get("/apps/streaming/ended")).status_code != 200:
            await asyncio.sleep(0.01)


def events_in(text: str) -> list[tuple[str, Any]]:
    """The names and data of whole server-sent events, without comments."""
    found = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and line[0] != ":")
        if lines:
            found.append((lines["event"], json.loads(lines["data"])))
    return found


async def test_what_a_handler_yields_is_streamed(client: httpx.AsyncClient) -> None:
    answer = await client.get("/apps/streaming/runs/one")
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    assert events_in(answer.text) == [FIRST, ("done", {"type": "done", "by": "developer"})]
    assert "id: 1\nevent: step\n" in answer.text
    at_root = await client.get("/api/run/two/stream")
    assert events_in(at_root.text) == [("done", {"type": "done", "by": "two"})]


async def test_a_refusal_before_the_first_event_is_an_answer(client: httpx.AsyncClient) -> None:
    refused = await client.get("/apps/streaming/runs/missing")
    assert (refused.status_code, error_of(refused)["content"]) == (404, "There is no such run.")


ENDS = {
    "refuses": ("not_found", "It is gone."),
    "raises": ("application_unavailable", "The application 'Streaming' has failed."),
    "odd": ("application_unavailable", "The application 'Streaming' has failed."),
    "large": ("application_unavailable", "The application 'Streaming' has failed."),
    "hangs": ("application_unavailable", "The application 'Streaming' has failed."),
}


@pytest.mark.parametrize(("run", "error"), ENDS.items(), ids=ENDS)
async def test_what_goes_wrong_later_is_the_last_event(
    client: httpx.AsyncClient, run: str, error: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    first, (name, data) = events_in((await client.get(f"/apps/streaming/runs/{run}")).text)
    assert (first, name) == (FIRST, "error")
    assert (data["error"]["code"], data["error"]["content"]) == error
    assert "hunter2" not in caplog.text


async def test_a_handler_whose_client_leaves_ends(client: httpx.AsyncClient) -> None:
    before = Streaming.ended
    async with client.stream("GET", "/apps/streaming/runs/endless") as answer:
        assert "step" in await anext(answer.aiter_text())
        assert Streaming.ended == before
    async with asyncio.timeout(10):
        while Streaming.ended == before:
            await asyncio.sleep(0.01)


async def test_streams_count_as_open_connections(client: httpx.AsyncClient) -> None:
    async with client.stream("GET", "/apps/streaming/runs/endless") as one:
        async with client.stream("GET", "/apps/streaming/runs/endless") as two:
            assert (one.status_code, two.status_code) == (200, 200)
            refused = await client.get("/apps/streaming/runs/one")
            assert (refused.status_code, error_of(refused)["code"]) == (429, "rate_limited")


async def test_a_test_of_an_author_reads_them_too() -> None:
    async with open_application(Streaming) as opened, opened.client("ann") as ann:
        assert events_in((await ann.get("/runs/one")).text) == [FIRST, ("done", {"type": "done", "by": "ann"})]


async def test_who_asks_for_the_head_alone_starts_nothing(client: httpx.AsyncClient) -> None:
    before = Streaming.ended
    answer = await client.head("/apps/streaming/runs/one")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    await client.get("/apps/streaming/runs/one")
    assert Streaming.ended == before + 1


async def test_they_are_described(client: httpx.AsyncClient) -> None:
    document = (await client.get("/apps/streaming/openapi.json")).json()
    validate(document)
    content = document["paths"]["/apps/streaming/runs/{run}"]["get"]["responses"]["200"]["content"]
    data = content["text/event-stream"]["schema"]["properties"]["data"]["contentSchema"]
    assert [one["$ref"].rpartition("/")[2] for one in data["anyOf"]] == ["Step", "Done"]


async def endless() -> Any:
    yield Step(name="one")
    await asyncio.sleep(60)


async def _ann(**more: Any) -> User:
    return replace(await DeveloperAuthenticator("developer").authenticate("dev:ann"), **more)


@asynccontextmanager
async def events_of(generator: Any) -> AsyncIterator[AuthorsEvents]:
    """The events of a handler, of which the first one is there."""
    calls = AuthorsCalls("test")
    border = Border(calls, {}, 20, lambda error: error, lambda failure: ApplicationUnavailable(failure.error))
    events = AuthorsEvents(generator, {Step: "step"}, border)
    try:
        await events.begin()
        yield events
    finally:
        await events.aclose()
        await calls.aclose(5)


async def names_in(events: AuthorsEvents) -> list[str]:
    return [each.event for batch in [batch async for batch in events] for each in batch]


async def test_they_end_with_the_server() -> None:
    drain = Drain()
    async with events_of(endless()) as events:
        events.follow(await _ann(), drain)
        assert [each.event for each in await anext(events)] == ["step"]
        drain.begin(0)
        [last] = await anext(events)
        assert json.loads(last.data)["error"]["code"] == "shutting_down"


async def test_they_end_with_the_token() -> None:
    async with events_of(endless()) as events:
        events.follow(await _ann(expires_at=time.time() - 60), Drain())
        assert await names_in(events) == ["step", "error"]


VALUE: ContextVar[int] = ContextVar("value", default=0)


async def test_a_handler_has_one_context_and_one_task_from_its_first_event_to_its_end() -> None:
    told: list[Any] = []

    async def handler() -> Any:
        token = VALUE.set(1)
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(0))
            yield Step(name="one")
            told.append(VALUE.get())
            with suppress(TimeoutError):
                async with asyncio.timeout(0.01):
                    yield Step(name="two")
                    await asyncio.sleep(60)
        VALUE.reset(token)
        told.append(asyncio.current_task())
        yield Step(name="three")
        told.append(asyncio.current_task())

    async with events_of(handler()) as events:
        assert await names_in(events) == ["step"] * 3
    assert told[0] == 1 and told[1] is told[2]


async def test_whoever_leaves_waits_for_a_handler_that_tidies_up_and_costs_nobody_anything() -> None:
    tidied: list[int] = []

    async def handler(number: int) -> Any:
        try:
            yield Step(name="one")
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            tidied.append(number)

    calls = AuthorsCalls("test")
    border = Border(calls, {}, 20, lambda error: error, lambda failure: ApplicationUnavailable(failure.error))
    streams = [AuthorsEvents(handler(number), {Step: "step"}, border) for number in range(30)]
    for events in streams:
        await events.begin()
    leaving = asyncio.gather(*(events.aclose() for events in streams))
    await asyncio.sleep(0)
    # None of them counts as one that hangs.
    assert await calls.result(lambda: asyncio.sleep(0, "answered"), 5, {}) == "answered"
    await leaving
    assert sorted(tidied) == [*range(30)]


class Untyped(Value):
    name: str


class OtherStep(Step):
    pass


class Error(Value):
    type: str = "error"


class Wrong(Application):
    id = "wrong"
    title = "Wrong"
    version = "1"

    async def bare(self, user: User) -> AsyncIterator:  # type: ignore[type-arg]
        yield Step(name="a")

    async def lists(self, user: User) -> list[Step]:  # type: ignore[misc]
        yield Step(name="a")

    async def untyped(self, user: User) -> AsyncIterator[Untyped | Done]:
        yield Untyped(name="a")

    async def texts(self, user: User) -> AsyncIterator[str]:
        yield "a"

    async def twice(self, user: User) -> AsyncIterator[Step | OtherStep]:
        yield Step(name="a")

    async def forgetful(self) -> AsyncIterator[Step]:
        yield Step(name="a")


REFUSED = {
    "bare": "AsyncIterator of the events",
    "lists": "AsyncIterator of the events",
    "untyped": "each with a field 'type'",
    "texts": "each with a field 'type'",
    "twice": "the same type",
    "forgetful": "no call forgets who calls",
}


@pytest.mark.parametrize(("handler", "why"), REFUSED.items(), ids=REFUSED)
def test_a_declaration_that_is_none_is_refused(handler: str, why: str) -> None:
    call = Call("GET", "/a", getattr(Wrong(Wrong.Settings()), handler))
    with pytest.raises(ClassPathError, match=why):
        declared_calls("wrong", [call])
