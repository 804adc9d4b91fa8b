"""Fallback: what the final of a graph says that ends without a text of a model: the last that the graph said otherwise.

It is the text of the graph's last message (the result of a tool, say) or, if that is empty, the last answer before it.
What a person has said is never repeated, and neither is a prompt: of the messages that are for a model, only what an
agent reports under its name counts.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from agentic_backend.protocol.messages import FinishReason
from agentic_backend.protocol.parts import Part, TextPart, text_of
from agentic_backend.streaming.content.conversion import bounded, parts_of, result_of, text_in
from agentic_backend.streaming.content.structured_output import structured_part, with_structured
from agentic_backend.streaming.transcode.drafts import CompleteDraft, HeldText, MessageDrafts

# Why a model says nothing, where it tells so; otherwise the reason is `other`.
_TELLING = (FinishReason.LENGTH, FinishReason.CONTENT_FILTER)


class Fallback:
    """Owned by the exchange's StreamTranscoder. `given` are the messages that the run starts from."""

    def __init__(self, given: Sequence[BaseMessage], *, is_resumed: bool) -> None:
        self._asked = {message.text for message in given if isinstance(message, HumanMessage)}
        """The texts of people."""
        self._earlier = {message.id: message.content for message in given if isinstance(message, AIMessage)}
        """The answers of earlier turns, by id."""
        # What the last message of the graph says, and its id.
        self._last: list[Part] = []
        self._last_id: str | None = None
        # What the last answer of a model says, and its id.
        self._answer: list[Part] = []
        self._answer_id: str | None = None
        self._removed: dict[str, None] = {}
        """The ids of answers that a graph has removed, and may return with those that stay."""
        self._reason: FinishReason | None = FinishReason.OTHER
        """Why its last model may have said nothing."""
        self.structured: Any = None
        """The root graph's structured response; None if it has none."""
        self.is_empty = False
        """Whether the graph has ended without any text of its own."""
        if is_resumed and given:
            self.added(given[-1])

    def final(self, held: HeldText | None, drafts: MessageDrafts, at: float) -> CompleteDraft:
        """The final: the text that was `held` for it, else the fallback; with the structured response."""
        if held is not None:
            final = held.draft
        else:
            self.is_empty = not text_of(self._last) and self.structured is None
            said = [] if self.structured is not None else self._last
            final = drafts.final_of(said, self._reason if self.is_empty else None, at)
        if self.structured is None:
            return final
        return final.with_parts(with_structured(final.message.parts if held is not None else [], self.structured))

    def added(self, message: BaseMessage) -> None:
        """The graph has a new message that no model has said."""
        if not self._is_for_model(message):
            self._last, self._last_id = _said(message), message.id

    def _is_for_model(self, message: BaseMessage) -> bool:
        """Whether it is a prompt, or what a person has said, perhaps in other words."""
        if not isinstance(message, HumanMessage):
            return isinstance(message, SystemMessage)
        # LangGraph's agents report to each other in human messages with their names.
        return not message.name or text_in(message) in self._asked or "lc_source" in message.additional_kwargs

    def answered_in_json(self, values: Iterable[Any], *, is_root: bool) -> None:
        """A node has written these structured responses of its graph, or None, in this order."""
        for value in values:
            if is_root:
                self.structured = value
            if value is not None:
                self._last, self._last_id = [structured_part(value)], None

    def answered(self, message_id: str | None, parts: list[Part]) -> None:
        """A model has given an answer, which may become the final."""
        self._answer, self._answer_id = parts, message_id

    def handed_over(self, message_id: str | None, parts: list[Part], reason: FinishReason | None) -> None:
        """A node has returned a model's message; one without a text leaves the answer before it."""
        self._last, self._last_id = (parts, message_id) if text_of(parts) else (self._answer, self._answer_id)
        self._reason = reason if reason in _TELLING else FinishReason.OTHER

    def changed(self, message_id: str | None, parts: list[Part]) -> None:
        """A node has returned the last answer again, with this text."""
        self._last = self._answer = parts
        self._last_id = self._answer_id = message_id

    def repeated(self, message: BaseMessage, *, is_hidden: bool) -> None:
        """The graph has returned a known message again; it may have changed the one that is the fallback."""
        if message.id is None:
            return
        if not is_hidden and self._is_answer_anew(message):
            self.changed(message.id, _said(message))
        if message.id == self._last_id:
            self._last = _said(message)
        if message.id == self._answer_id:
            self._answer = _said(message)

    def _is_answer_anew(self, message: BaseMessage) -> bool:
        """Whether it says something else under the id of an earlier turn's answer, and the graph has said nothing yet:
        an author may give all answers one id. A graph that only changes what it has said before says more than that.
        """
        if self._last or not isinstance(message, AIMessage) or message.tool_calls:
            return False
        return message.id in self._earlier and message.content != self._earlier[message.id]

    def removed(self, message_id: str | None) -> None:
        """The graph has removed this message, or all of them."""
        if message_id in (None, self._answer_id):
            if self._answer_id is not None:
                self._removed = {self._answer_id: None}
            self._answer, self._answer_id = [], None
        if message_id in (None, self._last_id):
            self._last, self._last_id = [], None

    def taken_back(self, message: AIMessage) -> list[Part] | None:
        """The parts of an answer that was removed and is returned again; None if it was not removed."""
        if message.id not in self._removed or message.tool_calls:
            return None
        self._removed.clear()
        parts = parts_of(message)
        self.changed(message.id, parts)
        return parts


def _said(message: BaseMessage) -> list[Part]:
    if isinstance(message, AIMessage):
        return parts_of(message)
    text = result_of(message, None).content if isinstance(message, ToolMessage) else bounded(text_in(message))
    return [TextPart(text=text)] if text else []
