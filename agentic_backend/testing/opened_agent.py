"""OpenedAgent: an agent in a whole server without sockets, which a test talks to.

The parts are those of `open_app`: the orchestrator, the relay, the transcoder, the factory and a SQLite file.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal
from uuid import uuid4

from langchain_core.language_models import BaseChatModel

from agentic_backend.agents.state.kept_state import NOTHING, Kept, plain, unpack_states
from agentic_backend.app import App, open_app
from agentic_backend.auth.user import Tokens, User
from agentic_backend.exchange.past.recall import Memory
from agentic_backend.protocol.events import AwaitingHuman, ExchangeEvent, Final
from agentic_backend.protocol.parts import TextPart
from agentic_backend.relay.drain import Drain
from agentic_backend.relay.log.exchange_log import Cursor, ExchangeLog
from agentic_backend.sessions.asking.turn import Turn
from agentic_backend.testing.agent_fault import noting
from agentic_backend.testing.agent_run import AgentRun
from agentic_backend.testing.decisions import Answering, Answers
from agentic_backend.testing.network import blocked_network
from agentic_backend.testing.served_catalog import served_catalog

TIMEOUT_S = 120.0
"""How long a run may take, in seconds, on a machine that has much else to do."""


BLOCKING_S = 0.8
"""How long an agent may block the event loop, in seconds, where the settings don't say: on a slow machine the import of
a library, or building a graph, takes longer than a server allows. A block that lasts longer is told after this time.
"""


class Cold:
    """Whether a test that asks more than once in a session is run again with cold agents; for the pytest plugin."""

    was_asked_twice = False
    """Whether a session was asked again since this was set."""
    is_on = False
    """Whether the agent is closed before it is asked again, as a server does that has had no use for it."""


@dataclass
class OpenedAgent:
    """Made by `open_agent`. `session_id` is the session of the asks so far; None before the first one."""

    app: App
    agent_id: str
    timeout_s: float
    blocked_hosts: list[str]
    """The hosts that something has tried to reach."""
    answer: Answers = None
    session_id: str | None = None
    blocking_s: float | None = None
    """How long the agent may block the event loop."""

    async def ask(
        self,
        message: str,
        *,
        answer: Answers = None,
        user: User | str = "developer",
        mode: Literal["chat", "query"] = "chat",
        runtime_context: Mapping[str, Any] | None = None,
    ) -> AgentRun:
        """Ask in the session, which the first ask opens, and wait for the end.

        `answer` answers what the agent asks people, in place of `open_agent`'s. A `query` has no session and no
        history. Raises the server's typed error if the ask is refused, Unanswered, TimeoutError with what was heard
        until then, and AgentFault where the agent would serve people badly, whatever it has answered.
        """
        if mode == "chat" and self.session_id is not None:
            Cold.was_asked_twice = True
            if Cold.is_on:
                await self.app.factory.teardown_session_agents(self.session_id)
        with noting(self.blocking_s) as noted:
            run = await self._ask(message, answer, user, mode, runtime_context)
            error = run.error.detail.type if run.error is not None and run.error.detail is not None else ""
            await noted.check(error)
        return run

    async def _ask(
        self,
        message: str,
        answer: Answers,
        user: User | str,
        mode: Literal["chat", "query"],
        runtime_context: Mapping[str, Any] | None,
    ) -> AgentRun:
        asking = _user(user)
        turn = Turn(
            parts=[TextPart(text=message)],
            mode=mode,
            session_id=None if mode == "query" else self.session_id,
            agent_id=self.agent_id if mode == "query" or self.session_id is None else None,
            runtime_context=runtime_context or {},
        )
        answering, blocked_before = Answering(self.answer if answer is None else answer), len(self.blocked_hosts)
        events: list[ExchangeEvent] = []
        try:
            async with asyncio.timeout(self.timeout_s) as limit:
                log = await self.app.services.sessions.orchestrator.ask(asking, turn, _tokens(asking), uuid4().hex)
                await self._follow(log, asking, answering, events)
                if mode == "chat":
                    self.session_id = log.session_id
                state = await self._state(log.session_id)
        except TimeoutError as error:
            if not limit.expired():
                raise
            heard = [type(event).__name__ for event in events]
            raise TimeoutError(f"the ask has not ended within {self.timeout_s:g} s; events so far: {heard}") from error
        return AgentRun(events, state, answering.requests, self.blocked_hosts[blocked_before:])

    async def _follow(self, log: ExchangeLog, user: User, answering: Answering, events: list[ExchangeEvent]) -> None:
        """Add all events to the final to `events`; what people are asked in between is answered."""
        orchestrator, changed = self.app.services.sessions.orchestrator, asyncio.Event()
        cursor: Cursor = log.follow(0, changed.set)
        try:
            while True:
                taken = cursor.take()
                events += taken
                if taken and isinstance(taken[-1], Final):
                    return
                if taken and isinstance(taken[-1], AwaitingHuman):
                    payload = answering.decide(taken[-1].payload.requests)
                    await orchestrator.human_resume(user, log.session_id, log.exchange_id, payload, _tokens(user))
                    continue
                await changed.wait()
                changed.clear()
        except BaseException:
            # Nobody waits for its end.
            await orchestrator.stop(user, log.session_id, log.exchange_id)
            raise
        finally:
            log.unfollow(cursor)

    async def _state(self, session_id: str | None) -> dict[str, Any]:
        packed = None if session_id is None else await self.app.store.session_state(session_id)
        states = {} if packed is None else unpack_states(packed)
        warm = None if session_id is None else self.app.factory.warm(session_id, self.agent_id)
        if warm is None:
            return {}
        kept = Kept.unpack(states[self.agent_id]) if self.agent_id in states else NOTHING
        channels = {**kept.private, **kept.channels, **({"messages": kept.messages} if kept.messages else {})}
        state = {name: plain(warm.serde.loads_typed((one.form, one.data))) for name, one in channels.items()}
        # What the transcript says as well is kept there alone.
        memory = warm.memory
        return state | ({"messages": list(memory.left)} if isinstance(memory, Memory) and memory.left else {})


@asynccontextmanager
async def open_agent(
    agent: object,
    *,
    model: BaseChatModel | None = None,
    models: Mapping[str, BaseChatModel] | None = None,
    answer: Answers = None,
    entry: Mapping[str, Any] | None = None,
    catalog: Path | str | None = None,
    settings: Path | str | Mapping[str, Any] | None = None,
    network: bool = False,
    timeout_s: float = TIMEOUT_S,
) -> AsyncIterator[OpenedAgent]:
    """An agent as a server would serve it, until the context ends.

    `agent` is an AgentFlow class, a compiled graph, a function that returns one, the class path of such as
    `module:name`, or the id of an entry of `catalog`: the one of the settings, else of the working directory. Of the
    first ones `entry` has what else their catalog entry says, such as `{"require_approval": ["send_mail"]}`.

    `model` takes the place of every model that the settings and the catalog name, `models` that of some, by name.
    Without them and without `settings` (a file, or values) the offline model answers. `answer` answers what the agent
    asks people. Unless `network` is allowed, only this machine can be reached.

    Raises CatalogProblems or ConfigError if the agent can't be served so.
    """
    with ExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory(ignore_cleanup_errors=True)))
        served = stack.enter_context(
            served_catalog(
                agent,
                directory,
                entry=entry,
                catalog=None if catalog is None else Path(catalog),
                settings=Path(settings) if isinstance(settings, str) else settings,
                model=model,
                models=models,
            )
        )
        hosts = [] if network else stack.enter_context(blocked_network())
        opened = open_app(served.settings, served.agents, served.models, 0, Drain(), applications=served.applications)
        async with opened as app:
            agents = served.settings.agents
            # What the agent has of applications, such as their middleware.
            await app.host.have_started()
            blocking_s = agents.blocking_s if "blocking_s" in agents.model_fields_set else BLOCKING_S
            yield OpenedAgent(app, served.agent_id, timeout_s, hosts, answer, blocking_s=blocking_s)


async def run_agent(
    agent: object,
    ask: str | Sequence[str],
    *,
    user: User | str = "developer",
    mode: Literal["chat", "query"] = "chat",
    runtime_context: Mapping[str, Any] | None = None,
    **options: Any,
) -> AgentRun:
    """Ask an agent once, or several times in one session, and return the last run.

    `options` are those of `open_agent`, the others those of `OpenedAgent.ask`; errors are those of both.
    """
    async with open_agent(agent, **options) as opened:
        *earlier, last = [ask] if isinstance(ask, str) else ask
        for one in earlier:
            await opened.ask(one, user=user, mode=mode, runtime_context=runtime_context)
        return await opened.ask(last, user=user, mode=mode, runtime_context=runtime_context)


def _user(user: User | str) -> User:
    return replace(user, is_developer=True) if isinstance(user, User) else User(user, user, is_developer=True)


def _tokens(user: User) -> Tokens:
    """What developer authentication takes for the user's token."""
    return Tokens(f"dev:{user.id}")
