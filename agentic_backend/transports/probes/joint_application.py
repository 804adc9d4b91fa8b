"""The internal listener's application of a server with workers: their metrics and their health as one.

It asks the internal listener of each worker. Workers that have ended don't count: the parent replaces them.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from agentic_backend.config.topics.observability import HealthSettings
from agentic_backend.kpi.joint_metrics import JointMetrics
from agentic_backend.kpi.snapshot import Snapshot
from agentic_backend.transports.probes.application import SNAPSHOT, application_of, health_response
from agentic_backend.transports.probes.readiness import BLOCKED, READY

NO_WORKER = "no_worker"
# How long a worker may take to answer; its event loop doesn't matter, but all its threads share one interpreter.
_ANSWER_S = 3.0
# Beyond the time that readiness takes at most by itself.
_READY_MORE_S = 1.0

Ports = Callable[[], Mapping[int, int]]
"""The ports of the workers that run, on loopback, by their numbers."""

Answer = TypeVar("Answer")
Read = Callable[[httpx.Response], Answer]


class _Workers:
    def __init__(self, client: httpx.AsyncClient, ports: Ports) -> None:
        self._client = client
        self._ports = ports
        self._silent_since: dict[int, float] = {}
        """Since when a worker that runs has not answered, in seconds of the monotonic clock."""

    async def ask(self, path: str, read: Read[Answer], timeout_s: float = _ANSWER_S) -> dict[int, Answer]:
        """The answers, as they are `read`, of those that give one, by number."""
        ports = self._ports()
        given = await asyncio.gather(*(self._ask(port, path, read, timeout_s) for port in ports.values()))
        answers = {number: answer for number, answer in zip(ports, given, strict=True) if answer is not None}
        now = time.monotonic()
        silent = ports.keys() - answers.keys()
        self._silent_since = {number: self._silent_since.get(number, now) for number in silent}
        return answers

    @property
    def longest_silence_s(self) -> float:
        """For how long one of them has not answered, 0 if all do."""
        return max((time.monotonic() - since for since in self._silent_since.values()), default=0.0)

    async def _ask(self, port: int, path: str, read: Read[Answer], timeout_s: float) -> Answer | None:
        try:
            async with asyncio.timeout(timeout_s):
                return read(await self._client.get(f"http://127.0.0.1:{port}{path}"))
        except (httpx.HTTPError, TimeoutError, ValueError, KeyError, TypeError):
            # It is gone, hangs or fails, or its port is another program's by now.
            return None


def joint_application(client: httpx.AsyncClient, ports: Ports, workers: int, health: HealthSettings) -> Starlette:
    """`workers` is how many there should be. `client` asks them."""
    asked, joint = _Workers(client, ports), JointMetrics(workers)
    # One scrape at a time, because a later answer must not be taken before an earlier one.
    turn = asyncio.Lock()

    async def metrics(request: Request) -> Response:
        async with turn:
            snapshots = await asked.ask(SNAPSHOT, lambda answer: Snapshot.decode(answer.content))
            for number, snapshot in snapshots.items():
                joint.take(number, snapshot)
            exposition, content_type = joint.exposition(snapshots.keys(), request.headers.get("accept", ""))
        return Response(exposition, headers={"content-type": content_type})

    async def live(request: Request) -> Response:
        statuses = _in_order(await asked.ask("/health/live", _status))
        if asked.longest_silence_s >= health.live_after_s:
            statuses.append(BLOCKED)
        return health_response(next((each for each in statuses if each != READY), READY if statuses else NO_WORKER))

    async def ready(request: Request) -> Response:
        statuses = _in_order(await asked.ask("/health/ready", _status, health.ready_timeout_s + _READY_MORE_S))
        return health_response(READY if READY in statuses else next(iter(statuses), NO_WORKER))

    async def log(request: Request) -> Response:
        return PlainTextResponse("".join(_in_order(await asked.ask("/log", _text))))

    return application_of(metrics, live, ready, log)


def _in_order(answers: Mapping[int, str]) -> list[str]:
    return [answer for _, answer in sorted(answers.items())]


def _status(answer: httpx.Response) -> str:
    return str(answer.json()["status"])


def _text(answer: httpx.Response) -> str:
    return answer.raise_for_status().text
