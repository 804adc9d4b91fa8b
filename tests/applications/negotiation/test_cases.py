"""Cases over the application's calls: begun, answered, patched, gone back in; whose they are, and when they go."""

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import count
from typing import Any, NamedTuple

import httpx
import pytest
import pytest_asyncio

from agentic_backend.applications.negotiation.application import Negotiation
from agentic_backend.applications.negotiation.packs.pack import SHIPPED, read_packs
from agentic_backend.stores.base import Store
from agentic_backend.testing import OpenedApplication, open_application
from tests.stores.samples import a_session

pytestmark = pytest.mark.asyncio(loop_scope="module")

SERVER = "http://127.0.0.1/agentic/v1"
RAISE = {"domain": "salary", "template": "raise"}
_numbers = count()


class Ann(NamedTuple):
    """A user who has nothing yet."""

    id: str
    client: httpx.AsyncClient
    store: Store

    async def begin(self) -> str:
        """The path of a case in a session of its own."""
        session_id = f"s{next(_numbers)}"
        await self.store.create_session(a_session(self.id, id=session_id))
        path = f"/sessions/{session_id}/case"
        answer = await self.client.put(path, json=RAISE)
        assert answer.status_code == 200, answer.text
        return path


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened() -> AsyncIterator[OpenedApplication[Negotiation]]:
    """One for all tests."""
    async with open_application(Negotiation) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def ann(opened: OpenedApplication[Negotiation]) -> AsyncIterator[Ann]:
    """One for each test."""
    user_id = f"ann{next(_numbers)}"
    async with opened.client(user_id) as client:
        yield Ann(user_id, client, opened.app.store)


async def events_of(client: httpx.AsyncClient, path: str) -> list[dict[str, Any]]:
    answer = await client.get(f"{path}/events")
    assert answer.status_code == 200, answer.text
    events: list[dict[str, Any]] = answer.json()["events"]
    return events


async def test_a_case_begins_with_its_questions_and_each_answer_closes_one(ann: Ann) -> None:
    path = await ann.begin()
    case = (await ann.client.get(path)).json()
    assert [each["slot"] for each in case["questions"] if each["required"]] == ["current_pay", "wanted_pay", "results"]
    answered = (await ann.client.post(f"{path}/answers", json={"slot": "wanted_pay", "text": "58"})).json()
    assert answered["snapshot"]["slots"] == {"wanted_pay": "58"}
    assert [each["slot"] for each in answered["questions"] if each["required"]] == ["current_pay", "results"]
    assert (await ann.client.get(path)).json() == answered


async def test_no_answer_tells_of_a_strategy(ann: Ann) -> None:
    path = await ann.begin()
    told = [(await ann.client.get(each)).text for each in ("/packs", path, f"{path}/events")]
    told.append((await ann.client.post(f"{path}/answers", json={"slot": "market", "text": "60"})).text)
    packs = read_packs(sorted(SHIPPED.glob("*.yaml"))).values()
    titles = [told for pack in packs for strategy in pack.strategies for told in (strategy.id, strategy.title)]
    assert [title for title in titles for text in told if title in text] == []


async def test_a_patch_that_is_refused_says_why_and_leaves_no_event(ann: Ann) -> None:
    path = await ann.begin()
    before = (await ann.client.get(path)).json()
    operations = [
        {"op": "replace", "path": "/goal", "value": "58"},
        {"op": "replace", "path": "/stage", "value": "war"},
    ]
    refused = await ann.client.post(f"{path}/patches", json={"operations": operations})
    assert refused.status_code == 400 and "/stage" in refused.json()["error"]["content"]
    assert (await ann.client.get(path)).json() == before
    assert [each["type"] for each in await events_of(ann.client, path)] == ["case_begun"]


async def test_one_goes_back_to_any_step_and_the_log_only_grows(ann: Ann) -> None:
    path = await ann.begin()
    for slot in ("current_pay", "wanted_pay"):
        await ann.client.post(f"{path}/answers", json={"slot": slot, "text": "50"})
    returned = (await ann.client.post(f"{path}/returns", json={"ordinal": 1})).json()
    assert returned["snapshot"]["slots"] == {"current_pay": "50"}
    assert (await ann.client.get(path)).json() == returned
    events = await events_of(ann.client, path)
    assert [each["ordinal"] for each in events] == [0, 1, 2, 3]
    assert events[-1]["type"] == "case_returned" and events[-1]["returned_to"] == 1
    assert (await ann.client.post(f"{path}/returns", json={"ordinal": 4})).status_code == 404


async def test_of_writes_at_once_each_counts_whole_or_is_refused(ann: Ann) -> None:
    path = await ann.begin()
    slots = ["current_pay", "wanted_pay", "results", "market"]
    calls = [ann.client.post(f"{path}/answers", json={"slot": slot, "text": "x"}) for slot in slots]
    answers = await asyncio.gather(*calls)
    assert {each.status_code for each in answers} <= {200, 409}
    won = {slot for slot, each in zip(slots, answers, strict=True) if each.status_code == 200}
    assert won and (await ann.client.get(path)).json()["snapshot"]["slots"].keys() == won
    assert [each["ordinal"] for each in await events_of(ann.client, path)] == [*range(len(won) + 1)]


async def test_nobody_else_reaches_a_case(ann: Ann, opened: OpenedApplication[Negotiation]) -> None:
    path = await ann.begin()
    async with opened.client("eve") as eve:
        answers = [
            await eve.get(path),
            await eve.put(path, json=RAISE),
            await eve.get(f"{path}/events"),
            await eve.post(f"{path}/answers", json={"slot": "results", "text": "x"}),
            await eve.post(f"{path}/patches", json={"operations": [{"op": "remove", "path": "/goal"}]}),
            await eve.post(f"{path}/returns", json={"ordinal": 0}),
        ]
    assert [each.status_code for each in answers] == [404] * 6
    assert len(await events_of(ann.client, path)) == 1


async def test_what_a_person_said_is_exported_and_goes_with_the_session_and_with_them(ann: Ann) -> None:
    canaries = ["canary of one case", "canary of another"]
    paths = [await ann.begin() for _ in canaries]
    for path, canary in zip(paths, canaries, strict=True):
        await ann.client.post(f"{path}/answers", json={"slot": "results", "text": canary})

    async def exported() -> list[bool]:
        lines = [json.loads(line) for line in (await ann.client.get(f"{SERVER}/me/export")).text.splitlines()]
        text = json.dumps(lines)
        return [canary in text for canary in canaries]

    assert await exported() == [True, True]
    deleted = await ann.client.delete(f"{SERVER}{paths[0].removesuffix('/case')}")
    assert deleted.status_code < 300 and (await ann.client.get(paths[0])).status_code == 404
    assert await exported() == [False, True]
    assert (await ann.client.delete(f"{SERVER}/me")).status_code == 204
    assert (await ann.client.get(paths[1])).status_code == 404
    assert await exported() == [False, False]
