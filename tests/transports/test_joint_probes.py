"""The joint internal listener, over real listeners of its workers: one that works, and one that answers nonsense."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp
from support.chat_client import PATIENCE_S

from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.config.topics.observability import HealthSettings
from agentic_backend.kpi import Kpi
from agentic_backend.server.process import Listener, address_of, bind
from agentic_backend.transports.probes.application import SNAPSHOT
from agentic_backend.transports.probes.joint_application import joint_application


@asynccontextmanager
async def listening(application: ASGIApp) -> AsyncIterator[httpx.URL]:
    bound = bind("127.0.0.1", 0)
    listener = Listener(application, bound, LimitsSettings())
    task = asyncio.create_task(listener.listen())
    yield httpx.URL(address_of(bound))
    listener.close()
    await task
    bound.close()


def a_worker() -> ASGIApp:
    kpi = Kpi()
    kpi.sessions.created("echo")

    async def snapshot(request: Request) -> Response:
        return Response(kpi.snapshot().encode())

    async def healthy(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def log(request: Request) -> Response:
        return PlainTextResponse("a line\n")

    health = [Route(f"/health/{name}", healthy) for name in ("live", "ready")]
    return Starlette(routes=[Route(SNAPSHOT, snapshot), Route("/log", log), *health])


def another_program(answer: Response) -> ASGIApp:
    async def anything(request: Request) -> Response:
        return answer

    return Starlette(routes=[Route("/{path:path}", anything)])


NONSENSE = {
    "an error": PlainTextResponse("Internal Server Error", 500),
    "another JSON": JSONResponse(["no", "snapshot"], 500),
    "no JSON": PlainTextResponse("welcome", 404),
}


@pytest.mark.parametrize("answer", NONSENSE.values(), ids=NONSENSE)
async def test_a_worker_that_answers_nonsense_counts_as_one_that_gives_no_answer(answer: Response) -> None:
    async with (
        listening(a_worker()) as one,
        listening(another_program(answer)) as other,
        httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as client,
    ):
        assert one.port and other.port
        ports = {0: one.port, 1: other.port}
        async with listening(joint_application(client, lambda: ports, 2, HealthSettings())) as joint:
            metrics = (await client.get(joint.join("/metrics"))).raise_for_status().text
            assert 'chat_sessions_created_total{agent_id="echo"} 1.0' in metrics
            assert 'chat_worker_up{worker="0"} 1.0' in metrics and 'chat_worker_up{worker="1"} 0.0' in metrics
            assert (await client.get(joint.join("/health/ready"))).json() == {"status": "ok"}
            assert (await client.get(joint.join("/health/live"))).json() == {"status": "ok"}
            assert (await client.get(joint.join("/log"))).text == "a line\n"
