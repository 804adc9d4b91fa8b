"""Takes what a model writes in `<think>…</think>` before its answer for a thought, as a reasoning parser does.

The thought moves to `reasoning_content`, where LangChain has that of such parsers: it is shown as a thought, is no part
of an answer or a title, and no later call is asked with it.
"""

from typing import Any, Literal

from langchain_core.messages import AIMessage, AIMessageChunk

_BEGIN, _END = "<think>", "</think>"
_REASONING = "reasoning_content"
# A whole message may be long; white space before the tag is short.
_NEAR = 200


class ThoughtTags:
    """Of one model call. Only texts have such tags, no blocks: whoever gives blocks tells thoughts apart."""

    __slots__ = ("_held", "_place")

    def __init__(self) -> None:
        self._held = ""
        """What may be a part of a tag, or white space beside one."""
        self._place: Literal["before", "within", "behind", "answer"] = "before"

    def put_into(self, chunk: AIMessageChunk) -> None:
        """Change the next chunk, in place."""
        if self._place == "answer":
            return
        told_apart = chunk.additional_kwargs.get(_REASONING)
        if not isinstance(chunk.content, str) or told_apart:
            # A chunk without anything may be a list, too.
            self._place = "answer" if chunk.content or told_apart else self._place
            return
        is_last = chunk.chunk_position == "last"
        if chunk.content or (is_last and self._held):
            thought, text = self._divided(self._held + chunk.content, is_last=is_last)
            _set(chunk, thought, text)

    def _divided(self, text: str, *, is_last: bool) -> tuple[str, str]:
        """The thought and the answer in the text; what may still become either is held."""
        self._held, thought = "", ""
        if self._place == "before":
            start = text.lstrip()
            if not is_last and len(start) < len(_BEGIN) and _BEGIN.startswith(start):
                self._held = text
                return "", ""
            if not start.startswith(_BEGIN):
                self._place = "answer"
                return "", text
            self._place, text = "within", start.removeprefix(_BEGIN)
        if self._place == "within":
            thought, end, text = text.partition(_END)
            if not end:
                kept = 0 if is_last else _begun(_END, thought)
                self._held = thought[len(thought) - kept :]
                return thought[: len(thought) - kept], ""
            self._place = "behind"
        text = text.lstrip()
        self._place = "answer" if text else "behind"
        return thought, text


def untagged(message: Any) -> Any:
    """The message itself, changed in place if its text begins with a thought."""
    if not isinstance(message, AIMessage) or not isinstance(message.content, str):
        return message
    if _BEGIN in message.content[:_NEAR] and not message.additional_kwargs.get(_REASONING):
        thought, text = ThoughtTags()._divided(message.content, is_last=True)
        if thought:
            _set(message, thought, text)
    return message


def _set(message: AIMessage, thought: str, text: str) -> None:
    message.__dict__["content"] = text
    if thought:
        message.__dict__["additional_kwargs"] = {**message.additional_kwargs, _REASONING: thought}


def _begun(tag: str, text: str) -> int:
    """How many characters of the tag the text ends with."""
    return next((count for count in range(len(tag) - 1, 0, -1) if text.endswith(tag[:count])), 0)
