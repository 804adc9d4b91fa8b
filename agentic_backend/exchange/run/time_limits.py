"""TimeLimits: how long an exchange may run, and how long its graph may be silent. Pure: times are passed in, in seconds
of one clock.
"""

from dataclasses import dataclass
from typing import Self

from agentic_backend.agents.catalog.catalog import AgentSettings
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.errors import AgenticError, LimitReached, ModelTimeout
from agentic_backend.streaming.model.in_flight import InFlight, Kind, Work


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """The limits of time of one agent, in seconds."""

    agent: str
    """Its name."""
    silence_s: float
    tool_s: float
    run_s: float

    @classmethod
    def of(cls, settings: AgentSettings, limits: LimitsSettings) -> Self:
        """The limits of a catalog entry; where it has none, those of the server."""
        own = settings.limits
        return cls(
            settings.name,
            silence_s=own.silence_s or limits.model_timeout_s,
            tool_s=own.tool_s or limits.tool_timeout_s,
            run_s=own.run_s or limits.run_timeout_s,
        )

    def next_end(self, in_flight: InFlight, open_call: str | None, last_sign: float) -> tuple[float, AgenticError]:
        """When the exchange is to end if its graph stays silent, and the error that it then ends with.

        `open_call` is the tool of a call without a result, if any: an author's graph may run its tools without
        LangChain, which then does not report them.
        """
        last_sign = max(last_sign, in_flight.last_sign)
        ends = [self._end_of(work, last_sign) for work in in_flight.innermost()]
        is_seen = in_flight.runs_a_tool() or any(isinstance(error, ModelTimeout) for _, error in ends)
        if open_call is not None and not is_seen:
            return last_sign + self.tool_s, self._tool_error(open_call)
        return min(ends, key=lambda end: end[0], default=(last_sign + self.silence_s, self._silence_error("")))

    def _end_of(self, work: Work, last_sign: float) -> tuple[float, AgenticError]:
        if work.kind is Kind.TOOL:
            # A tool that no model has called may have been cancelled by its node.
            return (work.sign_at if work.is_called else last_sign) + self.tool_s, self._tool_error(work.name)
        error = ModelTimeout() if work.kind is Kind.MODEL else self._silence_error(f"its node '{work.name}'")
        return last_sign + self.silence_s, error

    def run_error(self) -> LimitReached:
        return LimitReached.of_agent(self.agent, "run_s", f"{self.run_s:g} seconds")

    def _tool_error(self, tool: str) -> LimitReached:
        reason = f"the tool '{tool}' did not end"
        return LimitReached.of_agent(self.agent, "tool_s", f"{self.tool_s:g} seconds", reason)

    def _silence_error(self, who: str) -> LimitReached:
        reason = f"{who or 'its graph'} gave no sign of life"
        return LimitReached.of_agent(self.agent, "silence_s", f"{self.silence_s:g} seconds", reason)
