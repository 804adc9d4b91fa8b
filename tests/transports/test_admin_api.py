"""The calls of admins: for admins only, each recorded before it is answered, over the data of all users."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from services.mongodb import further_on_mongodb
from starlette.applications import Starlette
from support.chat_client import chat
from support.failing_store import FailingStore
from support.rest_client import PREFIX, rest
from support.running_server import RunningServer, running_server
from support.test_agents import ENTRIES

from agentic_backend.auth.developer import DeveloperAuthenticator
from agentic_backend.auth.user import User
from agentic_backend.auth.user_tokens import TokenCache
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.kpi import Kpi
from agentic_backend.policy.admin_reads import AdminReads
from agentic_backend.protocol.parts import Value
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.trail import (
    AdminReadRecord,
    AuditRecord,
    ExtractionRecord,
    ModuleErrorRecord,
    TrailQuery,
)
from agentic_backend.stores.sqlite import SqliteStore
from agentic_backend.tracing.tracing import Tracing
from agentic_backend.transports.calls.admin.admin_gate import AdminGate
from agentic_backend.transports.rest.operation import Operation
from agentic_backend.transports.rest.rest_calls import RestCalls
from agentic_backend.transports.rest.rest_errors import EXCEPTION_HANDLERS

PATHS = [
    "/admin/sessions",
    "/admin/sessions/s/audit",
    "/admin/exchanges/e/prompt",
    "/admin/modules",
    "/admin/usage",
    "/admin/feedback",
    "/admin/reads",
]


@pytest.fixture
async def server(store_url: str, tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path, agents=ENTRIES, settings={"store": {"url": store_url}}) as server:
        yield server


async def ask(server: RunningServer, message: str, token: str) -> dict[str, Any]:
    async with chat(server.address, token=token) as client:
        final: dict[str, Any] = (await client.ask(message, agent_id="echo"))[-1]
        return final


async def get(server: RunningServer, path: str, token: str | None = None) -> httpx.Response:
    async with rest(server, token) as client:
        return await client.get(path)


async def reads(server: RunningServer) -> list[tuple[str, str | None]]:
    body = (await get(server, "/admin/reads")).json()
    return [(read["path"].removeprefix(f"GET {PREFIX}"), read["subject"]) for read in body["reads"]]


@pytest.mark.parametrize("path", PATHS)
@further_on_mongodb("store_url")
async def test_who_is_no_admin_is_refused_and_reads_nothing(server: RunningServer, path: str) -> None:
    refused = await get(server, path, "dev:alice")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
    assert await reads(server) == [("/admin/reads", None)]


async def test_an_admin_sees_the_sessions_of_all_users_page_by_page(server: RunningServer) -> None:
    for name in ("alice", "bob", "alice"):
        await ask(server, "hello", f"dev:{name}")
    all_of_them = (await get(server, "/admin/sessions")).json()["sessions"]
    assert [session["user_id"] for session in all_of_them] == ["alice", "bob", "alice"]
    assert set(all_of_them[0]) >= {"id", "title", "state", "message_count", "scope"}
    # Without the titles: a model may just be naming a session.
    ids = [session["id"] for session in all_of_them]
    pages, cursor = [], ""
    for _ in range(3):
        body = (await get(server, f"/admin/sessions?limit=1&cursor={cursor}")).json()
        pages += [session["id"] for session in body["sessions"]]
        cursor = body.get("next_cursor", "")
    assert pages == ids and cursor == ""
    of_alice = (await get(server, "/admin/sessions?user_id=alice")).json()["sessions"]
    assert [session["id"] for session in of_alice] == [ids[0], ids[2]]


async def test_each_read_is_recorded_with_whose_data_it_was(server: RunningServer) -> None:
    session_id = (await ask(server, "hello", "dev:alice"))["session_id"]
    await get(server, f"/admin/sessions/{session_id}/audit")
    await get(server, "/admin/sessions?user_id=alice")
    await get(server, "/admin/sessions/none/audit")
    await get(server, "/admin/usage?exchange_id=e")
    long = "x" * 2_000
    await get(server, f"/admin/usage?user_id={long}")
    assert await reads(server) == [
        ("/admin/reads", None),
        (f"/admin/usage?user_id={long}"[: 500 - len(f"GET {PREFIX}")], long[:500]),
        ("/admin/usage?exchange_id=e", "e"),
        ("/admin/sessions/none/audit", "none"),
        ("/admin/sessions?user_id=alice", "alice"),
        (f"/admin/sessions/{session_id}/audit", session_id),
    ]
    named = (await get(server, f"/admin/reads?subject={session_id}")).json()["reads"]
    assert [(read["user_id"], read["subject"]) for read in named] == [("developer", session_id)]


@pytest.mark.parametrize(
    ("path", "status", "told"),
    [
        ("/admin/sessions/none/audit", 404, "There is no such session"),
        ("/admin/exchanges/none/prompt", 404, "There is no such exchange"),
        ("/admin/sessions?limit=0", 400, "limit"),
        ("/admin/sessions?state=asleep", 400, "state"),
        ("/admin/sessions?cursor=wrong", 400, "cursor"),
        ("/admin/reads?cursor=wrong", 400, "cursor"),
    ],
)
@further_on_mongodb("store_url")
async def test_a_wrong_call_is_told(server: RunningServer, path: str, status: int, told: str) -> None:
    response = await get(server, path)
    assert (response.status_code, told in response.json()["error"]["content"]) == (status, True)


async def test_the_audit_of_a_session_has_each_kind_page_by_page(server: RunningServer, store: Store) -> None:
    final = await ask(server, "hello", "dev:alice")
    ids = {"session_id": final["session_id"], "exchange_id": final["exchange_id"], "user_id": "alice"}
    await store.add_trail([audit(number, **ids) for number in (0, 1, 2, 9)])
    await store.add_trail([audit(5, **{**ids, "session_id": (await ask(server, "hello", "dev:bob"))["session_id"]})])
    found = ExtractionRecord(
        id="x", at=datetime.now(UTC), point="chat:before_ai", module="m", type="pii", data={"types": ["email"]}, **ids
    )
    await store.add_trail([found])
    path = f"/admin/sessions/{final['session_id']}/audit"
    body = (await get(server, path)).json()
    assert [record["original"] for record in body["audit_records"]] == [f"original {n}" for n in (9, 2, 1, 0)]
    assert [record["data"] for record in body["extractions"]] == [{"types": ["email"]}]
    assert (body["tool_calls"], body["next_cursors"]) == ([], {})
    first = (await get(server, f"{path}?limit=3")).json()
    cursor = first["next_cursors"].pop("audit_records")
    assert first["next_cursors"] == {}
    rest_of = (await get(server, f"{path}?limit=3&kind=audit_records&cursor={cursor}")).json()
    assert [record["original"] for record in rest_of["audit_records"]] == ["original 0"]
    assert set(rest_of) == {"session_id", "audit_records", "next_cursors"}


def audit(number: int, **ids: Any) -> AuditRecord:
    at = datetime(2026, 1, 1 + number, tzinfo=UTC)
    return AuditRecord(
        id=f"a{number}",
        at=at,
        rank=0,
        point="chat:before_ai",
        module="pii",
        action="modified",
        original=f"original {number}",
        **ids,
    )


async def test_a_new_route_of_admins_is_guarded_by_its_path(tmp_path: Path) -> None:
    store = FailingStore(await SqliteStore.open(tmp_path / "chat.sqlite3", timeout_s=10))
    answered: list[str] = []

    async def answer(user: User, id: str) -> Value:
        answered.append(user.id)
        return Value()

    authenticator = DeveloperAuthenticator("root")
    gate = AdminGate(AdminReads(store.as_store))
    calls = RestCalls(authenticator, TokenCache(authenticator.refresh), LimitsSettings(), gate, Kpi(), Tracing())
    routes = calls.routes([Operation("DELETE", f"{PREFIX}/admin/news/{{id}}", answer)])
    application = Starlette(routes=routes, exception_handlers=EXCEPTION_HANDLERS)
    transport = httpx.ASGITransport(application)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        path = f"{PREFIX}/admin/news/7?why=curious"
        refused = await client.delete(path, headers={"Authorization": "Bearer dev:alice"})
        assert (refused.status_code, answered) == (403, [])
        with store.away("add_trail"):
            unrecorded = await client.delete(path)
        assert (unrecorded.status_code, unrecorded.json()["error"]["code"]) == (503, "store_unavailable")
        assert answered == []
        assert (await client.delete(path)).status_code == 200
    [read] = (await store.real.trail(TrailQuery(AdminReadRecord))).records
    assert (answered, read.user_id, read.path, read.subject) == (["root"], "root", f"DELETE {path}", "7")
    await store.real.aclose()


async def test_the_figures_of_all_users_are_read_on_record_too(server: RunningServer) -> None:
    path = "/metrics/chatbot/summary?start=2026-01-01&end=2026-02-01"
    for token in ("dev:alice", None):
        assert (await get(server, path, token)).status_code == 200
    assert await reads(server) == [("/admin/reads", None), (path, None)]


@further_on_mongodb("store_url")
async def test_the_prompt_of_an_exchange_is_shown_in_sections_with_their_sources(server: RunningServer) -> None:
    async with chat(server.address, token="dev:alice") as client:
        final = (await client.ask("hello"))[-1]
    body = (await get(server, f"/admin/exchanges/{final['exchange_id']}/prompt")).json()
    [prompt] = body["prompts"]
    assert (prompt["agent_id"], prompt["user_id"], prompt["session_id"]) == ("assistant", "alice", final["session_id"])
    [core] = prompt["sections"]
    assert (core["name"], core["source"]) == ("core", "agent:assistant")
    assert core["text"] and core["version"] and core["tokens"] > 0


async def test_the_modules_are_shown_with_their_last_errors(store_url: str, store: Store, tmp_path: Path) -> None:
    error = ModuleErrorRecord(
        id="e",
        at=datetime.now(UTC),
        session_id=None,
        exchange_id=None,
        point="chat:before_ai",
        module="language",
        error="timeout",
        duration_ms=5_000,
        outcome="continued",
    )
    await store.add_trail([error])
    file = tmp_path / "modules.yaml"
    module = {"name": "language", "class_path": "agentic_backend.modules.language:LanguageNote"}
    file.write_text(yaml.safe_dump({"modules": [module]}))
    settings = {"store": {"url": store_url}, "modules": {"file": str(file)}}
    async with running_server(tmp_path, settings=settings) as server:
        async with chat(server.address, token="dev:alice") as client:
            await client.ask("hello")
        body = (await get(server, "/admin/modules")).json()
    [shown], [failed] = body["modules"], body["errors"]
    assert (shown["name"], set(shown["circuits"].values()), shown["failures"]) == ("language", {"closed"}, 0)
    assert shown["calls"] >= 1
    assert (failed["module"], failed["error"], failed["outcome"]) == ("language", "timeout", "continued")
