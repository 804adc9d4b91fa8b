"""ExchangeKpis: what one exchange cost, as its KPI record in the store and in the metrics."""

import asyncio

from agentic_backend.kpi import Kpi
from agentic_backend.protocol.messages import ChatMessage, ExchangeStatus, TokenUsage
from agentic_backend.protocol.parts import ToolCallPart, ToolResultPart
from agentic_backend.sessions.asked import Asked
from agentic_backend.sessions.graph_run import GraphRun
from agentic_backend.stores.records import KpiRecord


class ExchangeKpis:
    """Owned by its exchange, which says when it starts and when it ends."""

    def __init__(self, kpi: Kpi, asked: Asked, graph_run: GraphRun) -> None:
        self._kpi = kpi
        self._asked = asked
        self._graph_run = graph_run
        self._clock = asyncio.get_running_loop().time
        self._began = self._clock()

    @property
    def ran_ms(self) -> int:
        """How long it has run, without its pauses."""
        return self._asked.ran_ms + round((self._clock() - self._began) * 1000)

    @property
    def first_token_ms(self) -> int | None:
        transcoder = self._graph_run.transcoder
        if self._asked.first_token_ms is not None or transcoder is None or transcoder.first_token_at is None:
            return self._asked.first_token_ms
        return self._asked.ran_ms + round((transcoder.first_token_at - self._began) * 1000)

    def start(self) -> None:
        self._kpi.exchange_started()

    def pause(self) -> None:
        self._count_calls()
        self._kpi.exchange_paused(self._asked.agent_id)

    def leave(self) -> None:
        """It ends, or goes on, elsewhere."""
        self._count_calls()
        self._kpi.exchange_left()

    def record(self, status: ExchangeStatus) -> KpiRecord:
        asked, transcoder = self._asked, self._graph_run.transcoder
        return KpiRecord(
            exchange_id=asked.opening.exchange_id,
            session_id=asked.opening.session_id,
            user_id=asked.user_id,
            agent_id=asked.agent_id,
            status=status,
            started_at=asked.started_at,
            latency_ms=self.ran_ms,
            first_token_ms=self.first_token_ms,
            usage=transcoder.usage if transcoder else TokenUsage(),
            model=transcoder.model if transcoder else None,
            tools=transcoder.calls.names if transcoder else [],
            failed_tools=transcoder.calls.failed if transcoder else 0,
        )

    def end(self, record: KpiRecord, messages: list[ChatMessage]) -> None:
        """Count an exchange that has ended with these `messages`."""
        exchange_id, run = record.exchange_id, self._graph_run
        first_token_s = None if record.first_token_ms is None else record.first_token_ms / 1000
        if run.ready_at is not None:
            self._kpi.exchange_ready(record.agent_id, run.ready_at - self._began, exchange_id)
        names: dict[str, str] = {}
        for part in (part for message in messages for part in message.parts):
            if isinstance(part, ToolCallPart):
                names[part.call_id] = part.name
            elif isinstance(part, ToolResultPart):
                tool = names.get(part.call_id, "")
                self._kpi.tool_ended(tool, (part.latency_ms or 0) / 1000, ok=part.ok is not False)
        self._count_calls()
        self._kpi.exchange_ended(record.agent_id, record.status, record.latency_ms / 1000, first_token_s, exchange_id)

    def _count_calls(self) -> None:
        for call in self._graph_run.model_calls:
            self._kpi.model_called(call.model, call.duration_s, tokens=call.tokens, error=call.error)
