"""RunCallback: the LangChain callback of an exchange's run. It is one for all, because LangChain calls each for every
token: it delivers tokens (ModelStream), counts calls (CallLimits) and knows what is at work (InFlight).
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult
from langchain_core.tools import ToolException
from langgraph.errors import ParentCommand

from agentic_backend.agents.agent_flow import StreamPart
from agentic_backend.agents.run.call_limits import CallLimits
from agentic_backend.agents.tools.tool_guard import allowance_of
from agentic_backend.agents.tools.unfit_calls import NOT_RUN, is_unfit
from agentic_backend.stores.protocol.trail import Allowance
from agentic_backend.streaming.model.call_spans import end_tool, fail_tool, tool_span
from agentic_backend.streaming.model.in_flight import InFlight, Kind
from agentic_backend.streaming.model.model_calls import ModelCall, OnBegin, begins
from agentic_backend.streaming.model.model_stream import ModelStream
from agentic_backend.streaming.model.response_calls import ResponseCalls
from agentic_backend.streaming.model.run_observer import RunObserver, tool_name
from agentic_backend.streaming.model.said import Said
from agentic_backend.streaming.model.stream_turns import StreamTurns
from agentic_backend.tracing.spans import OpenSpan


class RunCallback(ModelStream, RunObserver):
    """Owned by one run; `sink` gets the parts of models' messages (see ModelStream)."""

    def __init__(
        self,
        sink: Callable[[StreamPart], None],
        said: Said,
        call_limits: CallLimits,
        clock: Callable[[], float],
        on_call: Callable[[ModelCall], None] = lambda call: None,
        on_allowed: Callable[[str, Allowance], None] = lambda call_id, allowance: None,
        turns: StreamTurns | None = None,
        calls: ResponseCalls | None = None,
        on_begin: OnBegin = begins,
    ) -> None:
        """`on_allowed` is told, maybe in a thread, of each call of a tool that starts, and why it may."""
        super().__init__(sink, said, on_call, turns, calls, on_begin)
        self._call_limits = call_limits
        self._clock = clock
        self._on_allowed = on_allowed
        self.in_flight = InFlight(clock())
        self._tool_spans: dict[UUID, OpenSpan | None] = {}
        """Of the tools that run."""

    def cut(self) -> None:
        """End the run. LangChain tells nobody of a tool that is cancelled."""
        super().cut()
        for span in list(self._tool_spans.values()):
            fail_tool(span, asyncio.CancelledError())

    async def _wait_in_line(self) -> None:
        self.in_flight.in_line += 1
        try:
            await super()._wait_in_line()
        finally:
            self.in_flight.in_line -= 1
            self.in_flight.last_sign = self._clock()

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        # First, because a refused call does not begin.
        self._call_limits.on_chat_model_start(serialized, messages, run_id=run_id)
        super().on_chat_model_start(serialized, messages, run_id=run_id, **kwargs)
        self._begin(run_id, parent_run_id, Kind.MODEL)

    def on_llm_start(
        self,
        serialized: dict[str, Any],
        prompts: list[str],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        self._call_limits.on_llm_start(serialized, prompts, run_id=run_id)
        super().on_llm_start(serialized, prompts, run_id=run_id, **kwargs)
        self._begin(run_id, parent_run_id, Kind.MODEL)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        super().on_llm_end(response, run_id=run_id, **kwargs)
        self._end(run_id)
        self._call_limits.on_llm_end(response, run_id=run_id)

    def on_llm_error(self, error: BaseException, *, run_id: UUID | None = None, **kwargs: Any) -> None:
        super().on_llm_error(error, run_id=run_id, **kwargs)
        if run_id is not None:
            self._end(run_id)
        self._call_limits.on_llm_error(error, run_id=run_id)

    def on_tool_start(
        self,
        serialized: dict[str, Any] | None,
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tool_call_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        inputs: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        name = tool_name(serialized)
        if is_unfit(inputs):
            raise ToolException(NOT_RUN)
        # A node may call a tool without a ToolNode, whose guard gives the model a failed result instead.
        allowance = allowance_of(name, metadata)
        self._call_limits.on_tool_start(serialized, input_str, run_id=run_id, tool_call_id=tool_call_id)
        is_called = tool_call_id is not None
        self.in_flight.begin(run_id, parent_run_id, Kind.TOOL, name, self._clock(), is_called=is_called)
        self._tool_spans[run_id] = tool_span(name, tool_call_id, input_str)
        if tool_call_id is not None and allowance is not None:
            self._on_allowed(tool_call_id, allowance)

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        end_tool(self._tool_spans.pop(run_id, None), output)
        self._end(run_id)
        self._call_limits.on_tool_end(output, run_id=run_id)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        fail_tool(self._tool_spans.pop(run_id, None), error)
        self._end(run_id)
        self._call_limits.on_tool_error(error, run_id=run_id)

    def _begin(
        self,
        run_id: UUID,
        parent: UUID | None,
        kind: Kind,
        name: str = "",
        *,
        given: Any = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.in_flight.begin(run_id, parent, kind, name, self._clock())

    def _end(self, run_id: UUID, output: Any = None) -> None:
        ended = self.in_flight.end(run_id, self._clock())
        # Not of what runs in a node, such as a prompt with examples of calls; nor of a graph, whose state is large.
        if output is not None and ended is not None and ended.kind is Kind.NODE:
            self.calls.end_of_node(output)

    def _fail(self, run_id: UUID, error: BaseException) -> None:
        # So a node writes to the graph around its own.
        self._end(run_id, error.args[0] if issubclass(type(error), ParentCommand) else None)
