"""People's documents: no door shows them to others, and no question finds what was removed or taken back before it."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
import yaml
from hostile.sizes import TIMEOUT_S, sized
from services.mongodb import ON_MONGODB, fresh_database, server_url
from support.chat_client import ChatClient, chat
from support.collections_of_documents import BY_WORDS, PATH, collection, put, settled
from support.collections_of_documents import serving as serves
from support.figures import figure
from support.rest_client import plain_http
from support.running_server import FAST, RunningServer, running_server
from support.server_process import serving

pytestmark = pytest.mark.timeout(TIMEOUT_S)

SECRET = "quokka"
PROBES, REMOVALS, KILLS = sized(20, 1_000), sized(8, 250), sized(1, 20)
TITLE = "Terms of Ann"
AGENTS: list[dict[str, Any]] = [
    {"id": "asks-all", "tuning": {"retrieval": {"collections": "all"}}},
    {"id": "asks-anns", "tuning": {"retrieval": {"collections": [TITLE]}}},
    {"id": "asks-attached", "tuning": {"retrieval": {}}},
]
APPLICATIONS = [
    {
        "class_path": PATH,
        "settings": {
            **BY_WORDS,
            "retrieval_profiles": {"anns": {"collections": [TITLE]}},
            "workflows": {"anns": {"retrieval": "anns"}},
        },
    }
]

Door = Callable[[str], Awaitable[Any]]
"""Asks something, and returns all that is told."""


def secret(number: int) -> str:
    return f"{SECRET}{number}berry"


def text(number: int) -> str:
    """A document whose subject has words of its own, and a secret that no question has."""
    return f"# Subject {number}\n\nThe wombat{number} of the marsh{number} is covered by {secret(number)}.\n"


def question(number: int) -> str:
    return f"Is the wombat{number} of the marsh{number} covered?"


@pytest.fixture(params=["sqlite", *ON_MONGODB])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with AsyncExitStack() as stack:
        settings = {**FAST, "applications": APPLICATIONS, "auth": {"developer": {"groups": ["staff"]}}}
        if request.param != "sqlite":
            url = await stack.enter_async_context(fresh_database(server_url(request.param, request)))
            settings["store"] = {"url": url}
        server = await stack.enter_async_context(running_server(tmp_path, agents=AGENTS, settings=settings))
        async with plain_http(base_url=f"{server.address}/apps/retrieval") as client:
            await serves(client)
        yield server


class Person:
    """A user at each door that asks documents."""

    def __init__(self, server: RunningServer, rest: httpx.AsyncClient, socket: ChatClient) -> None:
        self.documents = f"{server.address}/apps/retrieval"
        self.rest = rest
        self._server, self._socket = server, socket

    async def told(self, path: str, method: str = "GET", **more: Any) -> str:
        return (await self.rest.request(method, f"{self._server.address}{path}", **more)).text

    async def search(self, collection_id: str, asked: str) -> str:
        return (await self.rest.get(f"{self.documents}/collections/{collection_id}/search", params={"q": asked})).text

    async def ask(self, agent_id: str, asked: str, **more: Any) -> list[dict[str, Any]]:
        return await self._socket.ask(asked, agent_id=agent_id, **more)

    async def run(self, asked: str, **more: Any) -> str:
        """What a run answers, what it told on its way, and what is kept of it."""
        answered = await self.rest.post(f"{self._server.address}/api/run", json={"query": asked, **more})
        if not answered.is_success:
            return answered.text
        run = answered.json()
        return answered.text + await self.told(run["sse_endpoint"]) + await self.told(f"/api/run/{run['run_id']}")

    async def attached(self, session_id: str, collection_id: str) -> str:
        """What comes of letting a conversation of one's own ask this collection."""
        path = f"/apps/retrieval/sessions/{session_id}/collections"
        return await self.told(path, "PUT", json={"collections": [collection_id]}) + await self.told(path)


@pytest.fixture
async def people(server: RunningServer) -> AsyncIterator[dict[str, Person]]:
    async with AsyncExitStack() as stack:
        found = {}
        for name in ("ann", "bea"):
            headers = {"authorization": f"Bearer dev:{name}"}
            client = await stack.enter_async_context(plain_http(headers=headers, timeout=60))
            found[name] = Person(
                server, client, await stack.enter_async_context(chat(server.address, token=f"dev:{name}"))
            )
        yield found


async def test_no_door_shows_a_passage_to_who_may_not_read_it(people: dict[str, Person]) -> None:
    ann, bea = people["ann"], people["bea"]
    ann.rest.base_url = httpx.URL(ann.documents)
    files = {f"subject-{number}": text(number) for number in range(10)}
    own = await collection(ann.rest, TITLE, **files)
    document = (await settled(ann.rest, own))["subject-0.md"]["id"]
    # What Ann has asked herself is hers too.
    asked = (await ann.ask("asks-all", question(0)))[-1]["messages"][0]["session_id"]
    ran = (
        await ann.rest.post(
            f"{ann.documents.removesuffix('/apps/retrieval')}/api/run", json={"query": question(0), "mode": "chat"}
        )
    ).json()
    assert SECRET in str(ran)
    beas = (await bea.ask("asks-attached", "hello"))[-1]["messages"][0]["session_id"]
    one = f"/apps/retrieval/collections/{own}"
    doors: dict[str, Door] = {
        "search": lambda asked: bea.search(own, asked),
        "documents": lambda _: bea.told(f"{one}/documents"),
        "a document": lambda _: bea.told(f"{one}/documents/{document}"),
        "its text": lambda _: bea.told(f"{one}/documents/{document}/text"),
        "an agent of all": lambda asked: bea.ask("asks-all", asked),
        "an agent of Ann's": lambda asked: bea.ask("asks-anns", asked),
        "attaching": lambda _: bea.attached(beas, own),
        "a conversation": lambda asked: bea.ask("asks-attached", asked, session_id=beas),
        "Ann's conversation": lambda _: bea.told(f"/apps/retrieval/sessions/{asked}/turn"),
        "a run": lambda asked: bea.run(asked),
        "a run of Ann's collection": lambda asked: bea.run(asked, workflow_id="anns", mode="chat"),
        "Ann's run": lambda _: bea.told(f"/api/run/{ran['run_id']}"),
        "Ann's stream": lambda _: bea.told(ran["sse_endpoint"]),
        "Ann's chat session": lambda _: bea.told(f"/api/chat/session/{ran['session_id']}"),
        "going on in it": lambda asked: bea.run(asked, mode="chat", session_id=ran["session_id"]),
        "an export": lambda _: bea.told("/agentic/v1/me/export"),
    }
    # The same doors, asked by who may: a door that finds nothing proves nothing.
    for found in (
        ann.search(own, question(1)),
        ann.ask("asks-all", question(1)),
        ann.run(question(1), workflow_id="anns"),
    ):
        assert secret(1) in str(await found)
    names = list(doors)
    for probe in range(PROBES):
        door = names[probe % len(names)]
        assert SECRET not in str(await doors[door](question(probe % 10))), door
    figure(f"{PROBES} probes at {len(names)} doors: 0 passages")


async def test_what_was_removed_or_taken_back_is_found_by_no_question_after_it(people: dict[str, Person]) -> None:
    ann, bea, chance = people["ann"], people["bea"], Random(7)
    ann.rest.base_url = httpx.URL(ann.documents)
    took = dict.fromkeys(("document", "collection", "sharing", "edition"), 0)
    for number in range(REMOVALS):
        own = await collection(ann.rest, f"Terms {number}", "staff", subject=text(number))
        one, way = f"/collections/{own}", list(took)[number % len(took)]
        took[way] += 1
        # Also where all of it is in memory.
        assert secret(number) in await bea.search(own, question(number))
        asks = bea if way == "sharing" else chance.choice([ann, bea])
        match way:
            case "document":
                [document] = (await settled(ann.rest, own)).values()
                done = await ann.rest.delete(f"{one}/documents/{document['id']}")
            case "collection":
                done = await ann.rest.delete(one)
            case "sharing":
                done = await ann.rest.put(one, json={"title": "Terms", "shared_with": None})
            case _:
                await put(ann.rest, own, "subject.md", b"# Another\n\nNothing is said of it.\n")
                await settled(ann.rest, own)
                done = await ann.rest.get(one + "/documents")
        assert done.is_success, done.text
        doors: list[Door] = [
            lambda asked, own=own, asks=asks: asks.search(own, asked),  # type: ignore[misc]
            lambda asked, asks=asks: asks.ask("asks-all", asked),  # type: ignore[misc]
            lambda asked, asks=asks: asks.run(asked),  # type: ignore[misc]
        ]
        assert secret(number) not in str(await chance.choice(doors)(question(number))), way
        if way in ("sharing", "edition"):
            await ann.rest.delete(one)
    figure(f"{REMOVALS} removals ({', '.join(f'{count} of a {way}' for way, count in took.items())}): 0 found")


async def test_what_is_removed_behind_a_kill_in_mid_ingestion_is_not_found(tmp_path: Path) -> None:
    catalog, config, chance = tmp_path / "catalog.yaml", tmp_path / "settings.yaml", Random(7)
    catalog.write_text(yaml.safe_dump({"agents": AGENTS}))
    config.write_text(yaml.safe_dump({"applications": APPLICATIONS}))
    arguments = ("--data", tmp_path, "--catalog", catalog, "--config", config)
    made: dict[str, int] = {}
    own = ""
    for kill in range(KILLS + 1):
        async with serving(*arguments, cwd=tmp_path) as server:
            base_url = f"{server.address}/apps/retrieval"
            async with plain_http(base_url=base_url, headers={"authorization": "Bearer dev:ann"}, timeout=60) as ann:
                await serves(ann)
                own = own or await collection(ann, "Terms")
                listed = (await ann.get(f"/collections/{own}/documents?limit=200")).json()["documents"]
                # Of those that the kill has left half read, some go at once; the others are read.
                for each in chance.sample(listed, len(listed) // 2):
                    number = made.pop(each["name"])
                    assert (await ann.delete(f"/collections/{own}/documents/{each['id']}")).status_code == 204
                    found = await ann.get(f"/collections/{own}/search", params={"q": question(number)})
                    assert secret(number) not in found.text
                ready = await settled(ann, own)
                assert ready.keys() == made.keys()
                for name, number in made.items():
                    assert ready[name]["state"] == "ready"
                    found = await ann.get(f"/collections/{own}/search", params={"q": question(number)})
                    assert secret(number) in found.text
                if kill == KILLS:
                    break
                for number in range(kill * 20, kill * 20 + 20):
                    # Long enough to be in the middle of.
                    await put(ann, own, f"{number}.md", (text(number) + "Nothing else. " * 2_000).encode())
                    made[f"{number}.md"] = number
                await asyncio.sleep(chance.uniform(0, 0.5))
            assert await server.stop(signal.SIGKILL) == -signal.SIGKILL
    figure(f"{KILLS} kills: what was removed behind them was not found, the rest was read")
