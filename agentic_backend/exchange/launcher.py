"""ExchangeLauncher: starts every exchange, whether stored or a query."""

import logging
from collections.abc import Awaitable, Callable, Mapping

from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.agents.catalog.catalog import AgentSettings
from agentic_backend.agents.permissions import Permissions
from agentic_backend.agents.runtime_context import RuntimeContext
from agentic_backend.auth.user import Tokens
from agentic_backend.config.topics.permissions import PermissionsSettings
from agentic_backend.exchange.exchange import Exchange
from agentic_backend.exchange.run.graph_run import GraphRun
from agentic_backend.exchange.run.kept_ui_resources import KeptUiResources
from agentic_backend.exchange.services import ExchangeServices
from agentic_backend.exchange.start import ExchangeStart
from agentic_backend.policy.hook_context import Point
from agentic_backend.policy.hooks.exchange_modules import ExchangeModules
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.stores.records import ExchangeRecord

log = logging.getLogger(__name__)


class ExchangeLauncher:
    def __init__(
        self, services: ExchangeServices, permissions: PermissionsSettings, applications: Mapping[str, object]
    ) -> None:
        self._services = services
        self._applications = applications
        """See `RuntimeContext.applications`."""
        self._permissions = permissions
        """What the users with each role may do."""

    def launch(
        self, start: ExchangeStart, tokens: Tokens | None, exchange_log: ExchangeLog | None = None
    ) -> ExchangeLog:
        """Start the exchange and return its log; `exchange_log` is the log from before a pause, if any."""
        record, relay = start.record, self._services.relay
        modules = self.modules_of(start)
        context = self.context_of(start, tokens, modules)
        graph_run = GraphRun(start, context, self._services)
        exchange_log = exchange_log or relay.new_log(start.session_id, record.id, record.user_id)
        relay.start(Exchange(start, graph_run, exchange_log, self._services, modules))
        if start.session_id is not None:
            relay.tell_lists(record.user_id, start.session_id)
        if start.resume_point is None:
            log.info("exchange started", extra=start.log_fields)
        else:
            log.info("exchange continues", extra=start.log_fields)
        return exchange_log

    def context_of(
        self, start: ExchangeStart, tokens: Tokens | None, modules: ExchangeModules | None
    ) -> RuntimeContext:
        """What runs of the exchange work with. `modules` are those that look at its tools' results."""
        record = start.record
        user_tokens = self._services.tokens.of(record.user_id)
        user_tokens.offer(tokens)
        entries = {agent.settings.id: agent.settings for agent in (start.agent, *start.agent.crew)}
        return RuntimeContext(
            user_id=record.user_id,
            session_id=start.session_id,
            exchange_id=record.id,
            agent_id=record.agent_id,
            client=record.runtime_context,
            tokens=user_tokens,
            scope=_scope_of(start),
            entries=entries,
            permissions=self._permissions_of(start, entries),
            filter_tool_result=modules.tool_result if modules is not None and modules.has(Point.TOOL_RESULT) else None,
            keep_ui_resource=self._keeper_of(start),
            start_in_background=self._services.background.start,
            applications=self._applications,
            record=record,
        )

    def _keeper_of(self, start: ExchangeStart) -> Callable[[str], Awaitable[str | None]] | None:
        if start.session is None:
            return None
        return KeptUiResources(self._services.store, start.session).keep

    def modules_of(self, start: ExchangeStart) -> ExchangeModules | None:
        """The modules that apply to this run; those that have looked at the opening know the past already."""
        if start.modules is not None:
            return start.modules
        settings, session = start.agent.settings, start.session
        return self._services.modules.of_exchange(start.record, settings, session, start.effective.modules)

    def _permissions_of(self, start: ExchangeStart, entries: Mapping[str, AgentSettings]) -> Permissions:
        """What the user may do in this run, by the roles with which the user asked, decided or resumed last."""
        policy = start.record.policy
        return Permissions(
            self._permissions.granted_to(policy.roles if policy is not None else ()),
            {agent_id: entry.permissions for agent_id, entry in entries.items()},
        )


def check_context(agent: CatalogAgent, record: ExchangeRecord) -> None:
    """Raise BadFrame or AgentUnavailable if the agent's graph can't be given its context."""
    context = RuntimeContext(
        user_id=record.user_id,
        session_id=record.session_id or None,
        exchange_id=record.id,
        agent_id=record.agent_id,
        client=record.runtime_context,
    )
    agent.check_context(context)


def _scope_of(start: ExchangeStart) -> Mapping[str, str]:
    policy, session = start.record.policy, start.session
    return {**(session.scope if session is not None else {}), **(policy.scope if policy is not None else {})}
