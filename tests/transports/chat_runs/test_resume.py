"""`POST /api/chat/resume`, and the names that runs keep when they are resumed."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import httpx
import pytest
from services.mongodb import further_on_mongodb
from support.chat_client import PATIENCE_S
from support.fault_agents import notes
from support.recorded_agents import eventually
from support.run_client import RESUME, Event, check_run, only, post, run, run_client, run_error, run_events, text_of_run
from support.running_server import running_server

from tests.transports.chat_runs.conftest import AGENTS

# A tool that ends, one that is at work when the server goes, and an answer.
SCRIPT = "note a | stumble b | words 3 0"

Opened = Callable[[], AbstractAsyncContextManager[httpx.AsyncClient]]


@pytest.fixture
def opened(tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch) -> Opened:
    """Starts a server on the same data each time."""
    monkeypatch.chdir(tmp_path)

    @asynccontextmanager
    async def open_one() -> AsyncIterator[httpx.AsyncClient]:
        settings = {"store": {"url": store_url}}
        async with (
            running_server(tmp_path, agents=AGENTS, settings=settings) as server,
            run_client(server.address) as client,
        ):
            yield client

    return open_one


async def interrupted(opened: Opened, directory: Path, **fields: str) -> list[Event]:
    """All that a client sees of a run whose server goes while a tool is at work."""
    events: list[Event] = []

    async def watch(address: str) -> None:
        async with run_client(address) as client:
            async for event in run_events(client, {"message": SCRIPT, "agentId": "scripted", **fields}):
                events.append(event)

    async with opened() as client:
        watching = asyncio.create_task(watch(str(client.base_url)))
        await eventually(lambda: [value for value, _ in notes(directory)] == ["a", "b"])
        await eventually(lambda: len(only(events, "tool_start")) == 2)
    await watching
    check_run(events)
    return events


async def test_a_run_whose_server_goes_is_resumed_under_its_name(opened: Opened, tmp_path: Path) -> None:
    seen = await interrupted(opened, tmp_path, runId="work")
    assert [event["type"] for event in seen[-2:]] == ["error", "done"]
    assert (seen[-2]["error"]["code"], seen[-2]["error"]["retryable"]) == ("interrupted", True)
    assert (seen[-1]["runId"], seen[-1]["status"]) == ("work", "failed")
    async with opened() as client:
        answer = await post(client, RESUME, runId="work")
        assert (answer["runId"], answer["status"]) == ("work", "succeeded")
        assert text_of_run(answer["events"]) == "1 2 3"
        assert answer["events"][-1]["conversationId"] == seen[-1]["conversationId"]
        assert [value for value, _ in notes(tmp_path)] == ["a", "b", "b"], "what had ended did not run again"
        assert "note" not in [event["name"] for event in only(answer["events"], "tool_end")]
        [summary] = only(answer["events"], "agent_summary")
        assert "note" in [tool["name"] for tool in summary["trust"]["tools"]], "the summary is of the whole run"
        # Whoever asks later, by whichever call, is told how it stands.
        assert (await post(client, RESUME, runId="work"))["status"] == "succeeded"
        assert text_of_run(await run(client, SCRIPT, runId="work")) == "1 2 3"
        assert len(notes(tmp_path)) == 3
    async with opened() as client:
        again = await post(client, RESUME, runId="work")
        assert (again["status"], text_of_run(again["events"])) == ("succeeded", "1 2 3")


@further_on_mongodb("store_url")
async def test_a_run_without_a_name_has_that_of_its_first_exchange(opened: Opened, tmp_path: Path) -> None:
    run_id = (await interrupted(opened, tmp_path))[-1]["runId"]
    async with opened() as client:
        first = (await client.get(f"/agentic/v1/exchanges/{run_id}")).json()
        assert (first["status"], "client_exchange_id" in first) == ("interrupted", False)
        answers = await asyncio.gather(*(post(client, RESUME, runId=run_id) for _ in range(3)))
        assert [(one["runId"], one["status"]) for one in answers] == [(run_id, "succeeded")] * 3
        assert len(notes(tmp_path)) == 3, "of those who resume at once, one does"


@further_on_mongodb("store_url")
async def test_a_later_ask_gives_up_what_could_have_gone_on(opened: Opened, tmp_path: Path) -> None:
    [*_, done] = await interrupted(opened, tmp_path, runId="work")
    async with opened() as client:
        await run(client, "words 1 0", agentId="scripted", conversationId=done["conversationId"])
        response = await client.post(RESUME, json={"runId": "work"})
        assert (response.status_code, run_error(response)["code"]) == (409, "checkpoint_missing")


async def test_a_running_run_is_shown_to_its_end(ann: httpx.AsyncClient) -> None:
    async with asyncio.timeout(20):
        events = run_events(ann, {"message": "pause 0.5 | words 2 0", "agentId": "scripted", "runId": "slow"})
        await anext(events)
        answer = await post(ann, RESUME, runId="slow")
        assert (answer["status"], text_of_run(answer["events"])) == ("succeeded", "1 2")
        assert [event async for event in events][-1]["status"] == "succeeded"


async def test_a_run_that_takes_too_long_goes_on(ann: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentic_backend.transports.chat_runs.following._WAIT_S", 0.2)
    events = run_events(ann, {"message": "pause 1 | words 2 0", "agentId": "scripted", "runId": "slow"})
    await anext(events)
    answer = await post(ann, RESUME, runId="slow")
    assert (answer["status"], answer["events"][-1]["status"]) == ("running", "running")
    assert [event async for event in events][-1]["status"] == "succeeded"


async def test_an_answer_whose_client_goes_gives_its_place_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = {"limits": {"requests_per_user": 1}}
    async with (
        running_server(tmp_path, agents=AGENTS, settings=settings) as server,
        run_client(server.address) as http,
    ):
        events = run_events(http, {"message": "pause 20", "agentId": "scripted", "runId": "slow"})
        await anext(events)
        with pytest.raises(httpx.ReadTimeout):
            await http.post(RESUME, json={"runId": "slow"}, timeout=0.5)
        async with asyncio.timeout(PATIENCE_S):
            # Until the server has seen that nobody listens any more, it is 429.
            while (listed := await http.get("/agentic/v1/sessions")).status_code != 200:
                await asyncio.sleep(0.05)
        session_id = listed.json()["sessions"][0]["id"]
        await http.post(f"/agentic/v1/sessions/{session_id}/cancel", json={})
        assert [event async for event in events][-1]["status"] == "canceled", "the run went on"


async def test_a_waiting_run_says_so(ann: httpx.AsyncClient) -> None:
    [requested] = only(await run(ann, "send mail", agentId="approved", runId="mail"), "tool_approval_requested")
    answer = await post(ann, RESUME, runId="mail")
    assert answer["status"] == "awaiting_approval"
    assert only(answer["events"], "tool_approval_requested") == [requested]


async def test_a_stopped_run_is_canceled(ann: httpx.AsyncClient) -> None:
    [*_, done] = await run(ann, "send mail", agentId="approved", runId="mail")
    await ann.post(f"/agentic/v1/sessions/{done['conversationId']}/cancel", json={})
    assert (await post(ann, RESUME, runId="mail"))["status"] == "canceled"


async def test_nobody_resumes_for_somebody_else(ann: httpx.AsyncClient, bob: httpx.AsyncClient) -> None:
    [*_, named] = await run(ann, "hello", agentId="echo", runId="hers")
    [*_, unnamed] = await run(ann, "hello", agentId="echo")
    for run_id in (named["runId"], unnamed["runId"], "none"):
        response = await bob.post(RESUME, json={"runId": run_id})
        assert (response.status_code, run_error(response)["code"]) == (404, "exchange_not_found")


@pytest.mark.parametrize("body", [{}, {"runId": None}, {"runId": ""}, {"runId": 7}, {"runId": "a", "force": True}])
async def test_a_refused_call_says_why(ann: httpx.AsyncClient, body: Event) -> None:
    response = await ann.post(RESUME, json=body)
    assert (response.status_code, run_error(response)["code"]) == (400, "bad_frame")


async def test_of_a_large_run_a_list_has_the_first_events_and_the_last(
    ann: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentic_backend.transports.chat_runs.following._LISTED_BYTES", 8_192)
    await run(ann, "note a | words 2000 0", agentId="scripted", runId="large")
    answer = await post(ann, RESUME, runId="large")
    assert answer["cut"] is True and answer["status"] == "succeeded"
    assert [event["name"] for event in only(answer["events"], "tool_end")] == ["note"]
