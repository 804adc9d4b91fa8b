"""ExchangeLauncher: from an admitted ask, or a stored exchange that goes on, to a running exchange."""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from agentic_backend.agents.agent_factory import AgentFactory
from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.agents.runtime_context import RuntimeContext
from agentic_backend.auth.user import Tokens
from agentic_backend.broadcast.exchange_log import ExchangeLog
from agentic_backend.kpi import Kpi
from agentic_backend.limits_settings import LimitsSettings
from agentic_backend.protocol.parts import text_of
from agentic_backend.sessions.asked import Asked
from agentic_backend.sessions.exchange import Exchange
from agentic_backend.sessions.exchange_views import ExchangeViews
from agentic_backend.sessions.graph_run import GoOn, GraphRun
from agentic_backend.sessions.ledger import Ledger
from agentic_backend.sessions.recall import Recall
from agentic_backend.sessions.relay import Relay
from agentic_backend.sessions.titles import UNNAMED, Titles, provisional_title
from agentic_backend.stores.base import Store
from agentic_backend.streaming.said import Said

log = logging.getLogger(__name__)


class ExchangeLauncher:
    def __init__(
        self,
        *,
        store: Store,
        factory: AgentFactory,
        relay: Relay,
        titles: Titles,
        views: ExchangeViews,
        kpi: Kpi,
        limits: LimitsSettings,
    ) -> None:
        self._factory = factory
        self._relay = relay
        self._titles = titles
        self._views = views
        self._kpi = kpi
        self._limits = limits
        self._recall = Recall(store)
        self._now = store.now

    def launch(
        self,
        asked: Asked,
        entry: CatalogAgent,
        ledger: Ledger,
        tokens: Tokens | None,
        *,
        runtime_context: Mapping[str, Any],
        go_on: GoOn | None = None,
        exchange_log: ExchangeLog | None = None,
    ) -> ExchangeLog:
        """Run the exchange; its log, which is `exchange_log` where there is one from before a pause."""
        opening = asked.opening
        context = RuntimeContext(
            user_id=asked.user_id,
            session_id=opening.session_id,
            exchange_id=opening.exchange_id,
            agent_id=asked.agent_id,
            client=runtime_context,
            access_token=tokens.access_token if tokens else None,
            refresh_token=tokens.refresh_token if tokens else None,
        )
        window = entry.settings.chat.history_exchanges
        graph_run = GraphRun(
            entry,
            context,
            factory=self._factory,
            recall=self._recall,
            window=self._limits.history_exchanges if window is None else window,
            on_first_token=lambda: self._name_session(asked),
            said=Said(self._limits.model_call_bytes, self._limits.model_run_bytes),
            go_on=go_on,
        )
        if exchange_log is None:
            exchange_log = self._relay.new_log(opening.session_id, opening.exchange_id, asked.user_id)
        self._relay.start(
            Exchange(
                asked,
                graph_run,
                ledger,
                exchange_log,
                recall=self._recall,
                views=self._views,
                kpi=self._kpi,
                limits=self._limits,
                stop_elsewhere=partial(self._relay.stop_elsewhere, opening.exchange_id),
                now=self._now,
            )
        )
        log.info("exchange started" if go_on is None else "exchange goes on", extra=asked.names)
        return exchange_log

    def _name_session(self, asked: Asked) -> None:
        session, message = asked.session, text_of(asked.opening.parts)
        unnamed = (UNNAMED, provisional_title(message))
        if session is not None and asked.opening.rank == 0 and session.title in unnamed:
            self._titles.name_soon(session, message)
