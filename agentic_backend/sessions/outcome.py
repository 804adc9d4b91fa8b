"""Outcome: how the run of an exchange has come to its end."""

from dataclasses import dataclass

from agentic_backend.errors import AgenticError
from agentic_backend.protocol.messages import ExchangeStatus


@dataclass(frozen=True, slots=True)
class Outcome:
    """`AWAITING_HUMAN` is the end of a run, not of its exchange."""

    status: ExchangeStatus
    error: AgenticError | None = None


OK = Outcome(ExchangeStatus.OK)
PAUSED = Outcome(ExchangeStatus.AWAITING_HUMAN)
STOPPED = Outcome(ExchangeStatus.STOPPED)
