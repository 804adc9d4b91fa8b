"""Tells of an exchange's progress in words, without what is said in it: which tools run, who takes over. Pure."""

from collections.abc import Iterator

from agentic_backend.protocol.events import Activity, Delta, Event, Started, Stream
from agentic_backend.protocol.messages import Channel
from agentic_backend.protocol.parts import ToolCallPart, ToolResultPart

_LONGEST = 200


class Progress:
    """One for each stream."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        """The tools that run, by call id."""
        self._last_block = -1

    def told_by(self, event: Event) -> Iterator[str]:
        match event:
            case Started():
                yield "begun"
            case Delta() if event.block > self._last_block:
                self._last_block = event.block
                yield "thinks" if event.channel is Channel.THOUGHT else "writes"
            case Stream():
                for part in event.message.parts:
                    if isinstance(part, ToolCallPart):
                        self._names[part.call_id] = part.title or part.name
                        yield f"calls {self._names[part.call_id]}"
                    elif isinstance(part, ToolResultPart):
                        ended = "has failed" if part.ok is False else "has answered"
                        yield f"{self._names.pop(part.call_id, 'a tool')} {ended}"
            case Activity():
                yield from _activity(event)


def _activity(activity: Activity) -> Iterator[str]:
    data = activity.data
    match activity.kind:
        case "agent_switch" | "handoff":
            yield f"{data.get('to_name', data.get('to'))} takes over"
        case "progress":
            texts = [text for text in data.values() if isinstance(text, str)]
            yield ", ".join(texts)[:_LONGEST] or "goes on"
        case "compacted":
            yield "reads a summary of what was said before"
