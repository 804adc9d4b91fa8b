"""ResponseEvents: an answer in the form of OpenAI's Responses API, as it grows and once it has ended. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from agentic_backend.transports.openai.answering import Ended, NewText, NewThought, Step
from agentic_backend.transports.openai.people import PersonCall
from agentic_backend.transports.openai.response_bodies import (
    IncompleteDetails,
    OpenAIResponse,
    OutputItem,
    OutputText,
    ResponseEvent,
    ResponseFailure,
    ResponseStatus,
    ResponseUsage,
)


@dataclass(slots=True)
class _Open:
    """The item that is being written."""

    kind: Literal["message", "reasoning"]
    id: str
    text: str = ""


class ResponseEvents:
    """`begun` is the response as it begins, `now` the clock, in seconds since 1970."""

    def __init__(self, begun: OpenAIResponse) -> None:
        self._begun = begun
        self._output: list[OutputItem] = []
        self._open: _Open | None = None
        self._sent = 0

    def begin(self) -> Iterator[ResponseEvent]:
        yield self._event("response.created", response=self._begun)
        yield self._event("response.in_progress", response=self._begun)

    def of(self, step: Step, now: int) -> Iterator[ResponseEvent]:
        """The events of a step; the last one's are the last of the response."""
        match step:
            case NewText(text):
                yield from self._grow("message", text)
            case NewThought(text):
                yield from self._grow("reasoning", text)
            case Ended():
                yield from self._close(is_whole=step.error is None and step.finish in ("stop", "tool_calls"))
                for call in step.calls:
                    yield from self._called(call)
                response = self.ended(step, now)
                yield self._event(f"response.{response.status}", response=response)

    def whole(self, steps: Iterator[Step], now: int) -> OpenAIResponse:
        """The response to a client that gets no events."""
        last: ResponseEvent | None = None
        for step in steps:
            for event in self.of(step, now):
                last = event
        assert last is not None and last.response is not None, "an answer ends"
        return last.response

    def ended(self, ended: Ended, now: int) -> OpenAIResponse:
        status, incomplete = _status_of(ended)
        failure = None
        if ended.error is not None:
            failure = ResponseFailure(code=ended.error.code, message=ended.error.content)
        changed: dict[str, Any] = {
            "status": status,
            "completed_at": now if status == "completed" else None,
            "error": failure,
            "incomplete_details": incomplete,
            "output": self._output,
            "usage": ResponseUsage.of(ended.usage),
        }
        return self._begun.model_copy(update=changed)

    def _grow(self, kind: Literal["message", "reasoning"], text: str) -> Iterator[ResponseEvent]:
        if self._open is None or self._open.kind != kind:
            yield from self._close(is_whole=True)
            yield from self._begin_item(kind)
        assert self._open is not None, "it has just begun"
        self._open.text += text
        if kind == "message":
            yield self._of_item("response.output_text.delta", content_index=0, delta=text, logprobs=[])
        else:
            yield self._of_item("response.reasoning_summary_text.delta", summary_index=0, delta=text)

    def _begin_item(self, kind: Literal["message", "reasoning"]) -> Iterator[ResponseEvent]:
        prefix = "msg" if kind == "message" else "rs"
        self._open = _Open(kind, self._item_id(prefix))
        item = (
            OutputItem.message(self._open.id, None, "in_progress")
            if kind == "message"
            else OutputItem.reasoning(self._open.id, None)
        )
        yield self._event("response.output_item.added", output_index=len(self._output), item=item)
        if kind == "message":
            yield self._of_item("response.content_part.added", content_index=0, part=OutputText.said(""))
        else:
            part = OutputText(type="summary_text", text="")
            yield self._of_item("response.reasoning_summary_part.added", summary_index=0, part=part)

    def _close(self, *, is_whole: bool) -> Iterator[ResponseEvent]:
        if (open_item := self._open) is None:
            return
        text = open_item.text
        if open_item.kind == "message":
            yield self._of_item("response.output_text.done", content_index=0, text=text, logprobs=[])
            yield self._of_item("response.content_part.done", content_index=0, part=OutputText.said(text))
            item = OutputItem.message(open_item.id, text, "completed" if is_whole else "incomplete")
        else:
            part = OutputText(type="summary_text", text=text)
            yield self._of_item("response.reasoning_summary_text.done", summary_index=0, text=text)
            yield self._of_item("response.reasoning_summary_part.done", summary_index=0, part=part)
            item = OutputItem.reasoning(open_item.id, text)
        yield from self._done(item)
        self._open = None

    def _called(self, call: PersonCall) -> Iterator[ResponseEvent]:
        item_id, index = self._item_id("fc"), len(self._output)
        begun = OutputItem.call(item_id, call, arguments="", status="in_progress")
        yield self._event("response.output_item.added", output_index=index, item=begun)
        place = {"item_id": item_id, "output_index": index}
        yield self._event("response.function_call_arguments.delta", **place, delta=call.arguments)
        done = {"name": call.name, "arguments": call.arguments}
        yield self._event("response.function_call_arguments.done", **place, **done)
        yield from self._done(OutputItem.call(item_id, call, arguments=call.arguments, status="completed"))

    def _done(self, item: OutputItem) -> Iterator[ResponseEvent]:
        yield self._event("response.output_item.done", output_index=len(self._output), item=item)
        self._output.append(item)

    def _item_id(self, prefix: str) -> str:
        return f"{prefix}_{self._begun.id.removeprefix('resp_')}_{len(self._output)}"

    def _of_item(self, kind: str, **fields: Any) -> ResponseEvent:
        assert self._open is not None
        return self._event(kind, item_id=self._open.id, output_index=len(self._output), **fields)

    def _event(self, kind: str, **fields: Any) -> ResponseEvent:
        event = ResponseEvent(type=kind, sequence_number=self._sent, **fields)
        self._sent += 1
        return event


def _status_of(ended: Ended) -> tuple[ResponseStatus, IncompleteDetails | None]:
    if ended.error is not None:
        return "failed", None
    if ended.was_stopped:
        return "incomplete", IncompleteDetails(reason="stopped")
    match ended.finish:
        case "length":
            return "incomplete", IncompleteDetails(reason="max_output_tokens")
        case "content_filter":
            return "incomplete", IncompleteDetails(reason="content_filter")
    return "completed", None
