"""TrialBuild: builds each agent once as the server would, with its model and its MCP servers, and says what fails.

No model is called, since that costs. An agent whose MCP server takes the user's token is not built, because nobody is
signed in. The agents' store is a trial's, empty and removed at its end.
"""

import asyncio
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agentic_backend.agents.agent_factory import AgentFactory
from agentic_backend.agents.agent_flow import AgentServices, is_flow_class
from agentic_backend.agents.agent_manager import AgentManager, CatalogAgent
from agentic_backend.agents.models.chat_models import ChatModels
from agentic_backend.agents.runtime_context import RuntimeContext
from agentic_backend.auth.developer import DeveloperAuthenticator
from agentic_backend.config.settings import Settings
from agentic_backend.disclosure.exception_detail import detail_of, text_of
from agentic_backend.experts.sentinel.operations import OPERATIONS, operations_settings
from agentic_backend.kpi import Kpi
from agentic_backend.loop.event_loop import command_loop
from agentic_backend.mcp.shared_sessions import SharedSessions
from agentic_backend.stores.base import Store
from agentic_backend.stores.opening import open_sqlite
from agentic_backend.stores.protocol.items import ItemBounds
from agentic_backend.tools.standard_tools import standard_tools

# Added to the factory's timeout, for an agent that ignores its cancellation.
_MORE_S = 2.0


@dataclass(frozen=True, slots=True)
class Built:
    """How the build of an agent went; `fault` and `skipped` say why not, in one line."""

    agent_id: str
    took_s: float = 0.0
    fault: str | None = None
    skipped: str | None = None

    def __str__(self) -> str:
        if self.fault is not None:
            return f"fault    {self.agent_id}: {self.fault}"
        return f"skipped  {self.agent_id}: {self.skipped}" if self.skipped else f"ok       {self.agent_id}"


def build_all(settings: Settings, agents: AgentManager, models: ChatModels) -> Iterator[Built]:
    """Build the served agents one by one, each within `agents.build_timeout_s`, and close them again."""
    with command_loop() as loop, TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        opening = open_sqlite(Path(directory) / "trial.sqlite3", settings.store.timeout_s)
        trial = _Trial(settings, models, _until_done(loop, loop.create_task(opening)))
        for agent in agents.served():
            yield _until_done(loop, loop.create_task(trial.build(agent)))
        _until_done(loop, loop.create_task(trial.aclose()))


def _until_done(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> Any:
    while not task.done():
        try:
            loop.run_until_complete(task)
        except SystemExit:
            # An agent's code has called sys.exit(), which stops the loop; the task goes on.
            continue
    return task.result()


class _Trial:
    def __init__(self, settings: Settings, models: ChatModels, store: Store) -> None:
        self._settings = settings
        self._models = models
        self._store = store
        self._servers = {OPERATIONS: operations_settings(None)} | settings.mcp_servers
        self._user_id = settings.auth.developer.user
        authenticator = DeveloperAuthenticator(self._user_id)
        self._shared = SharedSessions()
        bounds = ItemBounds(settings.agents.store_items, settings.agents.store_bytes)
        services = AgentServices(
            models=models,
            exchange_token=authenticator.exchange,
            store=store,
            item_bounds=bounds,
            state_types=settings.agents.state_types,
            standard_tools=standard_tools(store, bounds, lambda kind, scope_id: {}),
            mcp_servers=self._servers,
            apis=settings.apis,
            shared_mcp_sessions=self._shared,
        )
        self._factory = AgentFactory(services, Kpi(), settings.agents)

    async def build(self, agent: CatalogAgent) -> Built:
        agent_id, began = agent.settings.id, time.monotonic()
        if needed := self._servers_of_users(agent):
            return Built(agent_id, skipped=f"needs a user's token for {', '.join(needed)}")
        building = asyncio.create_task(self._build(agent))
        await asyncio.wait({building}, timeout=self._settings.agents.build_timeout_s + _MORE_S)
        if not building.done():
            building.cancel()
            return Built(agent_id, fault="does not end, though its time is up")
        error = asyncio.CancelledError() if building.cancelled() else building.exception()
        fault = None if error is None else _fault(error, self._factory.secrets)
        return Built(agent_id, time.monotonic() - began, fault)

    async def aclose(self) -> None:
        await self._factory.aclose()
        await self._shared.aclose()
        await self._store.aclose()

    async def _build(self, agent: CatalogAgent) -> None:
        if is_flow_class(agent.target) or agent.settings.model is not None:
            self._models.get(agent.settings.model)
        context = RuntimeContext(self._user_id, None, "validate", agent.settings.id)
        async with self._factory.lease(agent, context):
            pass

    def _servers_of_users(self, agent: CatalogAgent) -> Sequence[str]:
        """The MCP servers of the agent and its crew that take the user's token."""
        ids = [use.id for one in (agent, *agent.crew) for use in one.settings.tuning.mcp_servers]
        return [name for name in ids if self._servers[name].auth.is_of_user]


def _fault(error: BaseException, secrets: Collection[str]) -> str:
    """`error` and what caused it, in one line."""
    detail = detail_of(error, secrets)
    told = [text_of(error, secrets)]
    if detail is not None:
        told = [text for text in told if text != detail.text]
        told.append(f"{detail.type}: {detail.text}" if detail.text else detail.type)
        told.append(f"at {detail.where}" if detail.where else "")
    return " ".join(" ".join(filter(None, told)).split())
