"""RecentTraces: the traces of the last runs that authors asked for on this process, in memory only."""

from collections import OrderedDict

from agentic_backend.exchange.run.run_trace import RunTrace
from agentic_backend.exchange.start import ExchangeStart

_MOST_RUNS, _MOST_BYTES = 64, 96 * 1024 * 1024
MOST_AT_ONCE = 8
"""While more runs go on in the process, no further ones are traced: they are load, and nobody looks into each."""


class RecentTraces:
    def __init__(self) -> None:
        # By exchange, the newest last.
        self._traces: OrderedDict[str, RunTrace] = OrderedDict()

    def begin(self, start: ExchangeStart, running: int) -> RunTrace | None:
        """The trace of a run that begins, or goes on after a pause here; None unless an author asked for it.

        `running` is the number of runs in the process, this one among them.
        """
        if not start.for_author or start.session is None:
            return None
        record = start.record
        trace = self._traces.get(record.id)
        if trace is None:
            if running > MOST_AT_ONCE:
                return None
            trace = self._traces[record.id] = RunTrace(record.id, record.user_id, record.agent_id)
        self._traces.move_to_end(record.id)
        self.keep_within_bounds()
        return trace

    def of(self, exchange_id: str) -> RunTrace | None:
        return self._traces.get(exchange_id)

    def keep_within_bounds(self) -> None:
        """Drop the oldest traces, except the newest one, until the rest are few and small enough."""
        size = sum(trace.size for trace in self._traces.values())
        while len(self._traces) > 1 and (len(self._traces) > _MOST_RUNS or size > _MOST_BYTES):
            size -= self._traces.popitem(last=False)[1].size

    def forget(self, user_id: str) -> None:
        """Drop the traces of a user whose data are deleted."""
        for trace in [one for one in self._traces.values() if one.user_id == user_id]:
            del self._traces[trace.exchange_id]

    def forget_exchanges(self, exchange_ids: list[str]) -> None:
        """Drop the traces of exchanges that are deleted."""
        for exchange_id in exchange_ids:
            self._traces.pop(exchange_id, None)
