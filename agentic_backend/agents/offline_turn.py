"""A turn of the offline model: one conversation, read for what it asks now. Pure."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolCall, ToolMessage

from agentic_backend.agents.offline_answers import SUMMARY_HEADING
from agentic_backend.agents.offline_calls import CallRequest, clauses


@dataclass(frozen=True)
class Turn:
    """`tools`: the descriptions of those that may be called, by name. `rest`: what is left of the text once its thought
    is taken.
    """

    messages: Sequence[BaseMessage]
    tools: Mapping[str, str]
    rest: str | None = None

    @cached_property
    def text(self) -> str:
        """What the person said last; empty where no person has spoken."""
        return self.rest if self.rest is not None else "".join(message.text for message in self._up_to_ask[-1:])

    @cached_property
    def clauses(self) -> list[str]:
        return [clause for _, clause in clauses(self.text)]

    @cached_property
    def earlier(self) -> list[str]:
        """What the person said before, oldest first."""
        return [message.text for message in self._up_to_ask[:-1] if isinstance(message, HumanMessage)]

    @cached_property
    def told(self) -> list[str]:
        """`earlier`, and the summary of what is no longer in the conversation."""
        return [
            message.text
            for message in self._up_to_ask[:-1]
            if isinstance(message, HumanMessage) or SUMMARY_HEADING in message.text
        ]

    @cached_property
    def results(self) -> list[tuple[str, ToolMessage]]:
        """The results since the person spoke, each with the name of its tool."""
        names = {call["id"]: call["name"] for call in self._made}
        return [
            (result.name or names.get(result.tool_call_id, "tool"), result)
            for result in self._since_ask
            if isinstance(result, ToolMessage)
        ]

    def is_prompted(self, start: str) -> bool:
        """Whether a system message begins with `start`."""
        return any(isinstance(message, SystemMessage) and message.text.startswith(start) for message in self.messages)

    def pending_calls(self, requests: Sequence[CallRequest]) -> tuple[ToolCall, ...]:
        """Those of `requests` that can be made and were not, since the person spoke.

        A call that a person has edited keeps its id, by which it counts as made.
        """
        made_ids = {call["id"] for call in self._made}
        made = [(call["name"], call["args"]) for call in self._made]
        return tuple(
            ToolCall(name=request.name, args=request.args, id=call_id)
            for index, request in enumerate(requests)
            if request.name in self.tools
            and request.args is not None
            and (call_id := f"call_{self._digest}_{index}") not in made_ids
            and (request.name, request.args) not in made
        )

    @cached_property
    def _ask_ends(self) -> int:
        """The place behind the last human message, 0 where there is none."""
        places = [place for place, message in enumerate(self.messages, 1) if isinstance(message, HumanMessage)]
        return places[-1] if places else 0

    @cached_property
    def _up_to_ask(self) -> Sequence[BaseMessage]:
        return self.messages[: self._ask_ends]

    @cached_property
    def _since_ask(self) -> Sequence[BaseMessage]:
        return self.messages[self._ask_ends :]

    @cached_property
    def _made(self) -> list[ToolCall]:
        return [call for message in self._since_ask if isinstance(message, AIMessage) for call in message.tool_calls]

    @cached_property
    def _digest(self) -> str:
        """Follows from all that was said up to the ask, ids of earlier calls included, so that no id comes twice."""
        said = hashlib.sha256()
        for message in self._up_to_ask:
            ids = [call["id"] for call in message.tool_calls] if isinstance(message, AIMessage) else []
            said.update(repr((message.type, message.text, ids)).encode())
        return said.hexdigest()[:16]
