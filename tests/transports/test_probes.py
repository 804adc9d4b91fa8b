"""Health: alive while the process runs, ready while asks can be taken. Over a real listener."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from support.chat_client import PATIENCE_S
from support.held_agents import Hold, held_graph
from support.recorded_agents import eventually
from support.rest_client import plain_http
from support.running_server import RunningServer, running_server
from support.sessions import Sessions, events_of, open_sessions

from agentic_backend.auth.developer import DeveloperAuthenticator
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.config.topics.observability import HealthSettings
from agentic_backend.loop.event_loop import event_loop_lag
from agentic_backend.loop.loop_load import LoopLoad
from agentic_backend.server.process import Listener, address_of, bind
from agentic_backend.telemetry import LogTail
from agentic_backend.transports.probes.application import internal_application
from agentic_backend.transports.probes.readiness import FAILURES, Liveness, Readiness


@asynccontextmanager
async def probed(directory: Path, hold: Hold) -> AsyncIterator[tuple[Sessions, httpx.AsyncClient]]:
    """Sessions whose store can go away, and a client of their internal listener."""
    async with open_sessions(directory, {"held": held_graph(hold)}, grace_s=30) as sessions:
        bound, health = bind("127.0.0.1", 0), HealthSettings()
        application = internal_application(
            sessions.kpi,
            Liveness(LoopLoad(), health),
            Readiness(sessions.store.as_store, sessions.relay, DeveloperAuthenticator("ann"), None, health),
            LogTail(),
        )
        listener = Listener(application, bound, LimitsSettings())
        listening = asyncio.create_task(listener.listen())
        async with plain_http(base_url=address_of(bound), timeout=PATIENCE_S) as client:
            yield sessions, client
        listener.close()
        await listening
        bound.close()


async def seen(client: httpx.AsyncClient, path: str) -> tuple[int, str]:
    response = await client.get(path)
    return response.status_code, response.json()["status"]


async def test_without_its_store_the_server_is_alive_but_not_ready(tmp_path: Path) -> None:
    async with probed(tmp_path, Hold()) as (sessions, client):
        assert await becomes(client, (200, "ok"))
        with sessions.store.away():
            assert await becomes(client, (503, "store_unavailable"))
            assert await seen(client, "/health/live") == (200, "ok")
            assert (await client.get("/metrics")).status_code == 200
        assert await becomes(client, (200, "ok"))


async def becomes(client: httpx.AsyncClient, expected: tuple[int, str]) -> bool:
    """Readiness is looked at once a second."""
    async with asyncio.timeout(PATIENCE_S):
        while await seen(client, "/health/ready") != expected:
            await asyncio.sleep(0.05)
    return True


async def test_readiness_takes_a_write_and_however_often_it_is_asked_one_a_second(tmp_path: Path) -> None:
    async with probed(tmp_path, Hold()) as (sessions, client):
        clock = asyncio.get_running_loop().time
        assert await becomes(client, (200, "ok"))
        with sessions.store.away("prove_write"):
            assert await becomes(client, (503, "store_unavailable"))
            assert sessions.store.refused.count("prove_write") >= FAILURES
            sessions.store.refused.clear()
            began = clock()
            for _ in range(30):
                assert await seen(client, "/health/ready") == (503, "store_unavailable")
            # On a machine that is so slow that the calls take seconds, one in each of them.
            assert sessions.store.refused.count("prove_write") < 10 + (clock() - began)
        sessions.store.hold("prove_write")
        await asyncio.sleep(1)
        # A store that doesn't answer is not waited for long, by however many.
        began = clock()
        answers = await asyncio.gather(*(seen(client, "/health/ready") for _ in range(20)))
        assert set(answers) == {(503, "store_unavailable")}
        assert clock() - began < 20, "one after the other they would take half as long again"


async def test_one_slow_write_does_not_send_the_clients_away(tmp_path: Path) -> None:
    async with probed(tmp_path, Hold()) as (sessions, client):
        assert await seen(client, "/health/ready") == (200, "ok")
        held = sessions.store.hold("prove_write")
        await asyncio.sleep(1)
        assert await seen(client, "/health/ready") == (200, "ok")
        assert await becomes(client, (503, "store_unavailable"))
        held.set()
        assert await becomes(client, (200, "ok"))


async def test_a_late_event_loop_is_ready_as_it_was_proved_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    health, is_over = HealthSettings(ready_timeout_s=0.5), False

    async def be_late() -> None:
        while not is_over:
            time.sleep(0.3)
            await asyncio.sleep(0)

    async with open_sessions(tmp_path, {"held": held_graph(Hold())}) as sessions, event_loop_lag(sessions.kpi):
        users = DeveloperAuthenticator("ann")
        readiness = Readiness(sessions.store.as_store, sessions.relay, users, None, health)
        assert await readiness.status() == "ok"
        # It is time for the next proof.
        await asyncio.sleep(1)
        busy = asyncio.create_task(be_late())
        asked = [asyncio.to_thread(asyncio.run, readiness.status_from_elsewhere()) for _ in range(3)]
        assert await asyncio.gather(*asked) == ["ok"] * 3
        monkeypatch.setattr(DeveloperAuthenticator, "ready", False)
        assert await asyncio.to_thread(asyncio.run, readiness.status_from_elsewhere()) == "auth_unavailable"
        is_over = True
        await busy


async def test_a_blocked_event_loop_is_not_alive_and_its_metrics_are_there(tmp_path: Path) -> None:
    health = {"health": {"live_after_s": 2}}
    async with running_server(tmp_path, settings=health) as server:

        def look() -> list[tuple[str, int]]:
            with httpx.Client(base_url=server.internal, timeout=PATIENCE_S) as client:
                answers: list[tuple[str, int]] = []
                for _ in range(30):
                    time.sleep(0.2)
                    live = client.get("/health/live")
                    answers.append((live.json()["status"], client.get("/metrics").status_code))
                    if live.status_code == 503:
                        answers.append((client.get("/health/ready").json()["status"], 200))
                        break
                return answers

        async with asyncio.timeout(PATIENCE_S):
            looking = asyncio.create_task(asyncio.to_thread(look))
            await asyncio.sleep(0)
            time.sleep(5)
            assert (await looking)[-2:] == [("event_loop_blocked", 200)] * 2
        async with plain_http(base_url=server.internal) as client:
            assert await becomes(client, (200, "ok"))
            assert await seen(client, "/health/live") == (200, "ok")


async def test_a_server_that_goes_down_is_alive_but_not_ready(tmp_path: Path) -> None:
    hold = Hold()
    async with probed(tmp_path, hold) as (sessions, client):
        log = await sessions.begin("hello")
        await eventually(lambda: hold.held)
        closing = asyncio.create_task(sessions.relay.aclose())
        await eventually(lambda: sessions.relay.draining)
        assert await seen(client, "/health/ready") == (503, "shutting_down")
        assert await seen(client, "/health/live") == (200, "ok")
        hold.released.set()
        await events_of(log)
        await closing
        assert await seen(client, "/health/ready") == (503, "shutting_down")


async def test_probes_answer_to_get_only_and_know_no_other_path(tmp_path: Path) -> None:
    async with probed(tmp_path, Hold()) as (_, client):
        assert (await client.post("/health/live")).status_code == 405
        assert (await client.get("/")).status_code == 404


async def test_the_latest_lines_of_the_log_are_told_inside(server: RunningServer) -> None:
    logging.getLogger("tests.probes").warning("a line of the log")
    async with plain_http() as client:
        told = await client.get(f"{server.internal}/log")
        outside = await client.get(f"{server.address}/log")
    assert json.loads(told.text.splitlines()[-1])["message"] == "a line of the log"
    assert outside.status_code == 404


@pytest.mark.parametrize("host", ["127.0.0.1:9000", "localhost", "[::1]:9000", "10.1.2.3:9000", "scraped.example:9"])
async def test_inside_scrapers_and_probes_are_served(tmp_path: Path, host: str) -> None:
    named = {"server": {"port": 0, "allowed_hosts": ["scraped.example"]}}
    async with running_server(tmp_path, settings=named) as server, plain_http() as client:
        for path in ("/health/live", "/metrics", "/log", "/nothing"):
            response = await client.get(f"{server.internal}{path}", headers={"Host": host})
            assert response.status_code == (404 if path == "/nothing" else 200)
            assert response.headers["x-content-type-options"] == "nosniff"
            assert response.headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9000", "127.0.0.1.evil.example", "1.2.3", ""])
@pytest.mark.asyncio(loop_scope="module")
async def test_inside_a_name_that_was_rebound_is_not_served(shared_server: RunningServer, host: str) -> None:
    async with plain_http() as client:
        response = await client.get(f"{shared_server.internal}/log", headers={"Host": host})
    assert response.status_code == 400
    assert response.headers["x-content-type-options"] == "nosniff"


@pytest.mark.asyncio(loop_scope="module")
async def test_inside_a_foreign_page_is_not_served(shared_server: RunningServer) -> None:
    async with plain_http() as client:
        response = await client.get(f"{shared_server.internal}/log", headers={"Origin": "https://evil.example"})
    assert response.status_code == 403


@pytest.mark.asyncio(loop_scope="module")
async def test_inside_a_health_check_of_http_1_0_names_no_host(shared_server: RunningServer) -> None:
    parts = urlsplit(shared_server.internal)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(b"GET /health/live HTTP/1.0\r\n\r\n")
    assert b" 200 " in await reader.readline()
    writer.transport.abort()
