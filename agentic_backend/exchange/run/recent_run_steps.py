"""RecentRunSteps: the steps of the last runs that authors asked for on this process, in memory only."""

from collections import OrderedDict

from agentic_backend.exchange.run.run_steps import RunSteps
from agentic_backend.exchange.start import ExchangeStart

_MOST_RUNS, _MOST_BYTES = 64, 96 * 1024 * 1024
MOST_AT_ONCE = 8
"""While more runs go on in the process, no further ones are traced: they are load, and nobody looks into each."""


class RecentRunSteps:
    def __init__(self) -> None:
        self._run_steps: OrderedDict[str, RunSteps] = OrderedDict()
        """By exchange, the newest last."""

    def begin(self, start: ExchangeStart, running: int) -> RunSteps | None:
        """The steps of a run that begins, or goes on after a pause here; None unless an author asked for it.

        `running` is the number of runs in the process, this one among them.
        """
        if not start.for_author or start.session is None:
            return None
        record = start.record
        steps = self._run_steps.get(record.id)
        if steps is None:
            if running > MOST_AT_ONCE:
                return None
            steps = self._run_steps[record.id] = RunSteps(record.id, record.user_id, record.agent_id)
        self._run_steps.move_to_end(record.id)
        self.keep_within_bounds()
        return steps

    def of(self, exchange_id: str) -> RunSteps | None:
        return self._run_steps.get(exchange_id)

    def keep_within_bounds(self) -> None:
        """Drop the oldest, except the newest one, until the rest are few and small enough."""
        size = sum(steps.size for steps in self._run_steps.values())
        while len(self._run_steps) > 1 and (len(self._run_steps) > _MOST_RUNS or size > _MOST_BYTES):
            size -= self._run_steps.popitem(last=False)[1].size

    def forget(self, user_id: str) -> None:
        """Drop those of a user whose data are deleted."""
        for steps in [one for one in self._run_steps.values() if one.user_id == user_id]:
            del self._run_steps[steps.exchange_id]

    def forget_exchanges(self, exchange_ids: list[str]) -> None:
        """Drop those of exchanges that are deleted."""
        for exchange_id in exchange_ids:
            self._run_steps.pop(exchange_id, None)
