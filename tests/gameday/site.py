"""Site: a server process, its neighbours, a Prometheus that scrapes it, and the people who ask it things."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from gameday.ranges import sooner_rules
from services.program import Program
from services.prometheus import RULES, Prometheus, Sample
from support.chat_client import Event, chat, is_refusal
from support.faulty_line import FaultyLine
from support.ports import free_port
from support.providers.model_server import ModelServer
from support.rest_client import plain_http
from support.server_process import ServerProcess, command
from support.signing_realm import SigningRealm
from support.skewed_clock import SkewedClock
from websockets.exceptions import ConnectionClosed, InvalidHandshake

NOTHING = "nothing"
PEOPLE = 2
_START_S, _ANSWER_S, _PAUSE_S = 180, 8, 0.2


@dataclass
class Site:
    """`in_full` if alerts are evaluated as shipped, over minutes."""

    directory: Path
    in_full: bool
    provider: ModelServer
    arguments: Sequence[object] = ()
    environment: dict[str, str] = field(default_factory=dict)
    workers: int = 1
    options: dict[str, Any] = field(default_factory=dict)
    """Of the server's process, as `command` takes them."""
    token: Callable[[], str] | None = None
    lines: dict[str, FaultyLine] = field(default_factory=dict)
    """The ways to the neighbours that are reached over a relay, by the neighbour's name."""
    keycloak: SigningRealm | None = None
    mcp: Program | None = None
    clock: SkewedClock | None = None
    disk: Path | None = None
    """A small file system with the data."""
    peer: "Site | None" = None
    """Another instance, which is scraped too and which nothing happens to."""
    public_port: int = field(default_factory=free_port)
    internal_port: int = field(default_factory=free_port)

    _servers: AsyncExitStack = field(default_factory=AsyncExitStack)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Site"]:
        self._stack = AsyncExitStack()
        async with self._stack:
            self._stack.push_async_callback(lambda: self._servers.aclose())
            await self.start()
            if self.peer is not None:
                self._stack.push_async_callback(self.peer.stop)
                await self.peer.start()
            rules = RULES if self.in_full else sooner_rules(self.directory)
            targets = [f"127.0.0.1:{site.internal_port}" for site in (self, self.peer) if site is not None]
            self.prometheus = Prometheus(self.directory, targets, rules)
            self._stack.callback(self.prometheus.stop)
            await asyncio.to_thread(self.prometheus.start)
            yield self

    async def start(self) -> None:
        environment = {
            "OPENAI_API_KEY": "a-key",
            "OPENAI_BASE_URL": f"{self.provider.url}/v1",
            "AGENTIC_MODELS__DEFAULT__MODEL": "openai:gpt-of-the-tests",
            "AGENTIC_MODELS__DEFAULT__OPTIONS": '{"max_retries": 0}',
            "AGENTIC_SERVER__GRACE_S": "1",
            "AGENTIC_SERVER__INTERNAL_PORT": str(self.internal_port),
            "AGENTIC_LIMITS__ASKS_PER_MINUTE": "null",
            **(self.clock.environment if self.clock else {}),
            **self.environment,
        }
        arguments = ["serve", "--port", self.public_port, *self.arguments]
        started = command(*arguments, cwd=self.directory, environment=environment, **self.options)
        self.server: ServerProcess = await self._servers.enter_async_context(started)
        await self.server.started(times=self.workers, timeout_s=_START_S)

    async def restart(self) -> None:
        """Stop the server, if it runs, and start it anew at the same ports."""
        await self.stop()
        await self.start()

    async def stop(self) -> None:
        if self.server.process.returncode is None:
            await self.server.stop()
        await self._servers.aclose()
        self._servers = AsyncExitStack()

    async def ready(self) -> str:
        """The status of readiness; `away` if nothing answers."""
        try:
            async with plain_http() as http:
                answer = await http.get(f"http://127.0.0.1:{self.internal_port}/health/ready")
        except httpx.HTTPError:
            return "away"
        status = str(answer.json()["status"])
        assert (status == "ok") == (answer.status_code == 200)
        return status

    async def true_for(self, expression: str, labels: Mapping[str, str]) -> list[Sample]:
        """The samples of an alert's expression with these labels: it is true for each."""
        samples = await self.prometheus.query(expression)
        return [sample for sample in samples if labels.items() <= sample[0].items()]

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.server.stderr.splitlines() if line.startswith("{")]

    @asynccontextmanager
    async def asked(self, message: str, agent_id: str | None) -> AsyncIterator[Counter[str]]:
        """People ask one thing after the other while the context is open; it counts what they get."""
        outcomes: Counter[str] = Counter()

        async def ask() -> None:
            chosen = {"agent_id": agent_id} if agent_id else {}
            while True:
                outcomes[await self.outcome(message, chosen)] += 1
                await asyncio.sleep(_PAUSE_S)

        people = [asyncio.create_task(ask()) for _ in range(PEOPLE)]
        try:
            yield outcomes
        finally:
            for person in people:
                person.cancel()
            for failed in await asyncio.gather(*people, return_exceptions=True):
                if not isinstance(failed, asyncio.CancelledError):
                    raise failed if isinstance(failed, BaseException) else AssertionError(failed)

    async def outcome(self, message: str, chosen: dict[str, str]) -> str:
        """Ask once, on a socket of its own: the status of the final, or the code of the error.

        `chosen` are fields of the ask, among them the session that it goes on in, which is kept there.
        """
        token = self.token() if self.token else None
        try:
            async with asyncio.timeout(_ANSWER_S), chat(self.address, token=token) as client:
                end = (await client.ask(message, **chosen))[-1]
        except TimeoutError:
            # It may still run, and a session has one at a time.
            chosen.pop("session_id", None)
            return NOTHING
        except InvalidHandshake:
            return "handshake refused"
        except (ConnectionClosed, OSError, EOFError):
            return await self._refusal(token) if token else "connection lost"
        if end["type"] == "final":
            chosen["session_id"] = end["session_id"]
        return outcome_of(end)

    async def _refusal(self, token: str) -> str:
        """The status and the code that a call gets with this token: a socket is closed with neither."""
        try:
            async with plain_http(timeout=_ANSWER_S) as http:
                headers = {"Authorization": f"Bearer {token}"}
                answer = await http.get(f"{self.address}/agentic/v1/sessions", headers=headers)
        except httpx.HTTPError:
            return "connection lost"
        return f"{answer.status_code} {answer.json()['error']['code']}" if answer.status_code != 200 else "let in"

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.public_port}"

    @property
    def data(self) -> Path:
        return (self.disk or self.directory) / "data"


def outcome_of(event: Event) -> str:
    if event["type"] == "final":
        return str(event["error"]["code"] if event["status"] == "error" else event["status"])
    return str(event["code"]) if is_refusal(event) else str(event["type"])
