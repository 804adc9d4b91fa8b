"""Links to sessions: who is given one reads what had ended when it was made, and nobody reads anything else."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
from services.mongodb import further_on_mongodb
from support.chat_client import chat
from support.rest_client import error_of, metric_at, rest
from support.running_server import RunningServer, running_server
from support.test_agents import ENTRIES

from agentic_backend.config.topics.sessions import SharingSettings
from agentic_backend.disclosure.redaction import REDACTED, redacted
from agentic_backend.kpi import Kpi
from agentic_backend.protocol.messages import Channel, Role
from agentic_backend.protocol.parts import TextPart
from agentic_backend.sessions.users.sharing import READS_PER_MINUTE, SHARES_PER_SESSION, SharingService
from agentic_backend.stores.base import ExchangeEnd, Fence, Store
from agentic_backend.stores.protocol.trail import ShareRecord, TrailQuery
from agentic_backend.stores.records import ExchangeStatus, MessageDraft, TokenUsage
from tests.stores.samples import EPOCH, a_session, an_exchange, question


@asynccontextmanager
async def serving(store_url: str, directory: Path, **sharing: Any) -> AsyncIterator[RunningServer]:
    settings = {"store": {"url": store_url}, "sharing": sharing}
    async with running_server(directory, agents=ENTRIES, settings=settings) as server:
        yield server


@pytest.fixture
async def server(store: Store, store_url: str, tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with serving(store_url, tmp_path) as server:
        yield server


async def asked(server: RunningServer, message: str = "hello", session_id: str | None = None) -> str:
    async with chat(server.address, token="dev:ann") as client:
        events = await client.ask(message, agent_id="echo", session_id=session_id)
        found: str = events[-1]["session_id"]
        return found


async def shared(server: RunningServer, session_id: str, **body: Any) -> dict[str, Any]:
    async with rest(server, "dev:ann") as client:
        answer = await client.post(f"/sessions/{session_id}/shares", json=body)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def read(server: RunningServer, secret: str, token: str = "dev:bob", **query: Any) -> httpx.Response:
    async with rest(server, token) as client:
        return await client.get(f"/shares/{secret}", params=query)


async def open_links(server: RunningServer, session_id: str) -> list[str]:
    async with rest(server, "dev:ann") as client:
        return [each["id"] for each in (await client.get(f"/sessions/{session_id}/shares")).json()["shares"]]


async def test_a_link_shows_what_had_ended_when_it_was_made(server: RunningServer) -> None:
    session_id = await asked(server, "first")
    link = await shared(server, session_id)
    await asked(server, "second", session_id)
    assert link["path"] == f"/#share/{link['secret']}" and len(link["secret"]) == 43 and link["up_to_rank"] == 2
    seen = (await read(server, link["secret"])).json()
    assert [message["parts"][0]["text"] for message in seen["messages"]] == ["first", "echo: first"]
    assert (seen["agent_id"], seen["expires_at"]) == ("echo", link["expires_at"])
    assert [agent["id"] for agent in seen["agents"]] == ["echo"]
    assert {message["session_id"] for message in seen["messages"]} == {None} and "next_after_rank" not in seen
    assert '"ann"' not in json.dumps(seen) and session_id not in json.dumps(seen)
    # Beyond what is shared there is nothing.
    assert (await read(server, link["secret"], after_rank=1)).json()["messages"] == []
    for event, count in {"created": 1, "read": 2}.items():
        assert await metric_at(server.internal, f'chat_shares_total{{event="{event}"}}') == count


async def test_a_link_is_read_page_by_page_without_thoughts(server: RunningServer, store: Store) -> None:
    session = a_session("ann")
    exchange = an_exchange(session)
    written = await store.begin_exchange(exchange, question(), session)
    fence = Fence(session.id, exchange.id, written.session.next_rank, exchange.owner)
    drafts = [
        MessageDraft(role=Role.ASSISTANT, channel=channel, parts=[TextPart(text=f"{number}")])
        for number, channel in enumerate([Channel.THOUGHT] * 3 + [Channel.OBSERVATION, Channel.FINAL], start=1)
    ]
    await store.append(fence, drafts, ExchangeEnd(status=ExchangeStatus.OK, usage=TokenUsage(), last_seq=9))
    link = await shared(server, session.id)
    ranks, after = [], -1
    while after is not None:
        page = (await read(server, link["secret"], after_rank=after, limit=2)).json()
        ranks += [message["rank"] for message in page["messages"]]
        after = page.get("next_after_rank")
    assert ranks == [0, 4, 5]


async def test_what_still_runs_is_not_shared(server: RunningServer, store: Store) -> None:
    session_id = await asked(server)
    session = await store.get_session(session_id)
    assert session is not None
    await store.begin_exchange(an_exchange(session, owner="another"), question("and now?"))
    link = await shared(server, session_id)
    assert link["up_to_rank"] == 2 and len((await read(server, link["secret"])).json()["messages"]) == 2
    running = a_session("ann")
    await store.begin_exchange(an_exchange(running, owner="another"), question(), running)
    async with rest(server, "dev:ann") as client:
        refused = await client.post(f"/sessions/{running.id}/shares", json={})
        assert error_of(refused)["code"] == "bad_frame"


async def test_a_link_is_closed_by_its_user_by_time_and_with_its_session(server: RunningServer, store: Store) -> None:
    session_id = await asked(server)
    revoked, expired, deleted = [await shared(server, session_id, expires_in_days=1) for _ in range(3)]
    assert await open_links(server, session_id) == [deleted["id"], expired["id"], revoked["id"]]
    async with rest(server, "dev:ann") as client:
        for status in (204, 404):
            assert (await client.delete(f"/sessions/{session_id}/shares/{revoked['id']}")).status_code == status
        [record] = (await store.trail(TrailQuery(ShareRecord, {"id": expired["id"]}))).records
        assert record.expires_at - record.at == timedelta(days=1)
        await store.add_trail([replace(record, expires_at=store.now() - timedelta(seconds=1))])
        assert await open_links(server, session_id) == [deleted["id"]]
        assert (await read(server, deleted["secret"])).status_code == 200
        await client.delete(f"/sessions/{session_id}")
    told = [await read(server, link["secret"]) for link in (revoked, expired, deleted)]
    told += [await read(server, "x" * 43), await read(server, "y" * 500), await read(server, revoked["id"])]
    assert {(error_of(each)["code"], error_of(each)["content"]) for each in told} == {
        ("not_found", "There is no such link; it may have expired or been revoked.")
    }


async def test_only_the_user_makes_lists_and_closes_links(server: RunningServer) -> None:
    session_id = await asked(server)
    link = await shared(server, session_id)
    async with rest(server, "dev:bob") as bob:
        path = f"/sessions/{session_id}/shares"
        own = await bob.post("/sessions", json={"agent_id": "echo"})
        answers = [await bob.post(path, json={}), await bob.get(path), await bob.delete(f"{path}/{link['id']}")]
        assert {error_of(each)["code"] for each in answers} == {"session_not_found"}
        foreign = await bob.delete(f"/sessions/{own.json()['id']}/shares/{link['id']}")
        assert error_of(foreign)["code"] == "not_found"
        # A link opens nothing else.
        assert error_of(await bob.get(f"/sessions/{session_id}/messages"))["code"] == "session_not_found"
    assert await open_links(server, session_id) == [link["id"]]


async def test_the_secret_is_neither_stored_nor_listed(server: RunningServer, store: Store) -> None:
    session_id = await asked(server)
    link = await shared(server, session_id)
    [record] = (await store.trail(TrailQuery(ShareRecord))).records
    assert record.id == link["id"] == sha256(link["secret"].encode()).hexdigest()
    async with rest(server, "dev:ann") as client:
        for path in ("/me/export", f"/sessions/{session_id}/shares", f"/sessions/{session_id}/export?format=json"):
            assert link["secret"] not in (await client.get(path)).text


@pytest.mark.parametrize("days", [0, -1, 91, 1.5, "7", True, 10**30])
@further_on_mongodb("store_url")
async def test_a_link_is_open_for_as_long_as_the_settings_allow(server: RunningServer, days: Any) -> None:
    session_id = await asked(server)
    async with rest(server, "dev:ann") as client:
        refused = await client.post(f"/sessions/{session_id}/shares", json={"expires_in_days": days})
    assert error_of(refused)["code"] == "bad_frame"
    assert await open_links(server, session_id) == []


async def test_links_and_their_reads_are_bounded(server: RunningServer) -> None:
    session_id = await asked(server)
    links = [await shared(server, session_id) for _ in range(SHARES_PER_SESSION)]
    async with rest(server, "dev:ann") as client:
        refused = await client.post(f"/sessions/{session_id}/shares", json={})
        assert error_of(refused)["code"] == "limit_reached"
    async with rest(server, "dev:bob") as bob:
        answers = [await bob.get(f"/shares/{'x' * 43}") for _ in range(READS_PER_MINUTE + 1)]
        assert [each.status_code for each in answers] == [404] * READS_PER_MINUTE + [429]
        assert (await bob.get(f"/shares/{links[0]['secret']}")).status_code == 429
    assert (await read(server, links[0]["secret"], "dev:carol")).status_code == 200


async def test_sharing_that_is_off_closes_all_links(store: Store, store_url: str, tmp_path: Path) -> None:
    async with serving(store_url, tmp_path, default_days=3, longest_days=5) as server:
        session_id = await asked(server)
        link = await shared(server, session_id)
        async with rest(server, "dev:ann") as client:
            info = (await client.get("/info")).json()
        assert info["sharing"] == {"default_days": 3, "longest_days": 5} and "sharing" in info["features"]
    async with serving(store_url, tmp_path, enabled=False) as server:
        async with rest(server, "dev:ann") as client:
            info = (await client.get("/info")).json()
            assert "sharing" not in info and "sharing" not in info["features"]
            path = f"/sessions/{session_id}/shares"
            answers = [await client.post(path, json={}), await client.get(path), await client.delete(f"{path}/x")]
            answers.append(await client.get(f"/shares/{link['secret']}"))
            assert {error_of(each)["code"] for each in answers} == {"forbidden"}


async def test_links_that_have_expired_are_deleted(store: Store) -> None:
    session = a_session("ann")
    await store.create_session(session)
    own: dict[str, Any] = {"session_id": session.id, "user_id": "ann", "up_to_rank": 2, "at": EPOCH}
    for name, minutes in {"expired": -1, "open": 1}.items():
        await store.add_trail([ShareRecord(id=name, **own, expires_at=store.now() + timedelta(minutes=minutes))])
    sharing = SharingService(store, SharingSettings(), Kpi())
    assert [await sharing.delete_expired(10), await sharing.delete_expired(10)] == [1, 0]
    assert [share.id for share in (await store.trail(TrailQuery(ShareRecord))).records] == ["open"]


def test_no_log_line_has_a_secret() -> None:
    line = {"message": "request refused", "path": f"/agentic/v1/shares/{'Zk1h-uXr_' * 5}"}
    assert redacted(line) == {"message": "request refused", "path": f"/agentic/v1/shares/{REDACTED}"}
