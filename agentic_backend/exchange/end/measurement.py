"""ExchangeMeasurement: measures one exchange and reports it to the metrics."""

import asyncio
from dataclasses import replace

from agentic_backend.agents.tools.result_marks import FORBIDDEN
from agentic_backend.errors import Interrupted, ModelTimeout
from agentic_backend.exchange.run.graph_run import GraphRun
from agentic_backend.kpi import Kpi
from agentic_backend.kpi.groups.agents import ToolError
from agentic_backend.policy.usage.usage_ledger import count_call
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.protocol.parts import ToolCallPart, ToolResultPart
from agentic_backend.stores.records import ExchangeRecord, KpiRecord, MessageRecord
from agentic_backend.streaming.model.model_calls import CUT


class ExchangeMeasurement:
    """Owned by its exchange, which reports its start, pauses and end here."""

    def __init__(self, kpi: Kpi, record: ExchangeRecord, graph_run: GraphRun) -> None:
        self._kpi = kpi
        self._record = record
        """Holds the times of the earlier runs."""
        self._graph_run = graph_run
        self._agent_name = graph_run.agent_name
        self._clock = asyncio.get_running_loop().time
        self._began = self._clock()
        """Start of this run, by the event loop's clock."""
        self._is_running = False
        """Whether it is counted among those that run."""

    @property
    def ran_ms(self) -> int:
        """The running time in milliseconds, without pauses."""
        return self._record.ran_ms + round((self._clock() - self._began) * 1000)

    @property
    def first_token_ms(self) -> int | None:
        started, before = self._graph_run.started, self._record.first_token_ms
        if before is not None or started is None or started.transcoder.first_token_at is None:
            return before
        return self._record.ran_ms + round((started.transcoder.first_token_at - self._began) * 1000)

    def start(self) -> None:
        self._kpi.exchanges.started()
        self._is_running = True

    def pause(self) -> None:
        self._count_run("")
        self._kpi.exchanges.paused(self._record.agent_id)
        self._is_running = False

    def leave(self) -> None:
        """Count an exchange that ends or continues on another instance, unless its end or its pause is counted."""
        if not self._is_running:
            return
        self._is_running = False
        self._kpi.exchanges.left()
        self._count_run(Interrupted.code)

    def end(self, record: KpiRecord, messages: list[MessageRecord], error_code: str | None) -> None:
        """Count an exchange that has ended with these `messages`, and with an error if there is a code."""
        exchange_id, started = record.exchange_id, self._graph_run.started
        first_token_s = None if record.first_token_ms is None else record.first_token_ms / 1000
        if started is not None:
            self._kpi.exchanges.ready(record.agent_id, started.at - self._began, exchange_id)
        names: dict[str, str] = {}
        for message, part in [(each, part) for each in messages for part in each.parts]:
            if isinstance(part, ToolCallPart):
                names[part.call_id] = part.name
            elif isinstance(part, ToolResultPart):
                tool = names.get(part.call_id, "")
                forbidden = FORBIDDEN in message.metadata.extras
                error: ToolError = "forbidden" if forbidden else "tool_error" if part.ok is False else ""
                self._kpi.agents.tool_ended(tool, self._agent_name, (part.latency_ms or 0) / 1000, error)
        stopped = "stopped" if record.status is ExchangeStatus.STOPPED else None
        self._count_run(error_code or "", cut_as=stopped or (error_code if error_code == ModelTimeout.code else None))
        self._kpi.exchanges.ended(
            record.agent_id, record.status, error_code, record.latency_ms / 1000, first_token_s, exchange_id
        )
        self._is_running = False

    def _count_run(self, error: str, *, cut_as: str | None = None) -> None:
        """Count the run and its model calls; those that were cut count as `cut_as`, if that tells why."""
        started = self._graph_run.started
        if started is None:
            return
        self._kpi.agents.ran(self._agent_name, self._clock() - started.at, error)
        for call in self._graph_run.model_calls:
            was_cut = call.error == CUT
            count_call(self._kpi, replace(call, error=cut_as) if was_cut and cut_as is not None else call)
