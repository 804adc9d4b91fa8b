"""RunRenderer: renders the events of an exchange as those of a run, but for its last ones. Pure."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, assert_never

from agentic_backend.protocol.events import Activity, AwaitingHuman, Event, Final, HumanRequests, Reset, Started, Stream
from agentic_backend.protocol.messages import ChatMessage
from agentic_backend.protocol.parts import ToolCallPart, ToolResultPart
from agentic_backend.transports.answer_text import AnswerText
from agentic_backend.transports.chat_runs.events import (
    AgentProgress,
    AgentSwitch,
    Handoff,
    RunEvent,
    TextDelta,
    ToolApprovalRequested,
    ToolEnd,
    ToolStart,
)

_PARTIAL_OUTPUT = 4_000
"""The characters of `partialOutput`: the last ones."""
_TOOLS_INVOKED = 50


class RunRenderer:
    def __init__(self, run_id: str, correlation_id: str | None = None, known: Sequence[ChatMessage] = ()) -> None:
        """The client has the messages `known` already."""
        self._run_id = run_id
        self._correlation_id = correlation_id
        self._answer = AnswerText(known)
        self._next_rank = 0
        """The lowest rank of a message that the client lacks."""
        self._names: dict[str, str] = {}
        """The tools that were called, by call id."""
        self._invoked: deque[str] = deque(maxlen=_TOOLS_INVOKED)
        for message in known:
            self._know(message)

    def render(self, event: Event) -> Iterator[RunEvent]:
        match event:
            case Started():
                yield self._progress("running")
            case Activity():
                yield from self._activity(event)
            case Stream():
                yield from self._tools(event.message)
            case Reset() | Final():
                for message in event.messages:
                    yield from self._tools(message)
        piece = self._answer.take(event)
        if piece is not None:
            yield TextDelta(text=piece.text, replaces=piece.replaces or None)

    def pause(self, event: AwaitingHuman) -> Iterator[RunEvent]:
        """The run waits for a person. A question that is no tool's call can't be answered by clients of runs."""
        for request in event.payload.requests:
            if request.call_id is not None:
                yield ToolApprovalRequested(
                    name=request.name or "", args=request.args, tool_call_id=request.call_id, run_id=self._run_id
                )
        yield self._progress("awaiting_approval", _asked(event.exchange_id, event.payload))

    def _know(self, message: ChatMessage) -> None:
        self._next_rank = message.rank + 1
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                self._names[part.call_id] = part.name
                self._invoked.append(part.name)

    def _tools(self, message: ChatMessage) -> Iterator[RunEvent]:
        """The calls and the results of a message that the client lacks."""
        if message.rank < self._next_rank:
            return
        self._know(message)
        has_result = False
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                yield ToolStart(name=part.name, args=part.args, tool_call_id=part.call_id)
            elif isinstance(part, ToolResultPart):
                has_result = True
                yield self._tool_end(part)
        if has_result:
            yield self._progress("running")

    def _tool_end(self, result: ToolResultPart) -> ToolEnd:
        return ToolEnd(
            name=self._names.get(result.call_id, ""),
            result=result.content,
            status="failed" if result.ok is False else "succeeded",
            tool_call_id=result.call_id,
        )

    def _activity(self, event: Activity) -> Iterator[RunEvent]:
        match event.kind:
            case "agent_switch":
                yield AgentSwitch(agent_name=_named(event.data, "to"))
            case "handoff":
                yield Handoff(origin=_named(event.data, "from"), to=_named(event.data, "to"))
            case "progress":
                yield self._progress("running", event.data)
            case "compacted":
                pass
            case _:
                assert_never(event.kind)

    def _progress(
        self, status: Literal["running", "awaiting_approval"], run_state: dict[str, Any] | None = None
    ) -> AgentProgress:
        return AgentProgress(
            run_id=self._run_id,
            status=status,
            partial_output=self._answer.text[-_PARTIAL_OUTPUT:],
            tools_invoked=list(self._invoked) or None,
            run_state=run_state,
            correlation_id=self._correlation_id,
        )


def _named(data: Mapping[str, Any], side: Literal["from", "to"]) -> str:
    """What people call one of the agents of an activity."""
    return str(data.get(f"{side}_name", data[side]))


def _asked(exchange_id: str, asked: HumanRequests) -> dict[str, Any] | None:
    """The questions among what a person is asked, and where they can be answered; None if there are none."""
    questions = [request.question or "" for request in asked.requests if request.call_id is None]
    return {"exchangeId": exchange_id, "questions": questions} if questions else None
