"""Copies LangChain's message chunk of a piece of plain text, instead of having each made and validated anew.

Of OpenAI's Chat Completions. Nearly all chunks of an answer say a piece of text and nothing else, so that LangChain
makes the same of them but for the text. The first of them is made by LangChain; the others are copies with their text.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk

from agentic_backend.agents.models.mixins import with_mixins


def copy_plain_chunks(model: BaseChatModel) -> None:
    """Make `model` copy them, if it has LangChain's own way to make chunks."""
    make = getattr(type(model), "_convert_chunk_to_generation_chunk", None)
    if make is not None and make.__module__ == "langchain_openai.chat_models.base":
        with_mixins(model, _CopiesPlainChunks)


class _CopiesPlainChunks:
    """A mixin that precedes the provider's class in the bases."""

    def _convert_chunk_to_generation_chunk(
        self: Any, chunk: Any, default_chunk_class: Any, base_generation_info: Any
    ) -> Any:
        text = None if base_generation_info or default_chunk_class is not AIMessageChunk else _plain_text(chunk)
        if text is not None and (known := _made.get(self.output_version)) is not None:
            return known.with_text(text)
        converted = super()._convert_chunk_to_generation_chunk(  # type: ignore[misc]
            chunk, default_chunk_class, base_generation_info
        )
        if text is not None and converted is not None and type(converted.message) is AIMessageChunk:
            _made[self.output_version] = _Made(converted)
        return converted


def _plain_text(chunk: Any) -> str | None:
    """The text of a chunk that says nothing else; None if there is more to it."""
    choices = chunk.get("choices")
    if not choices or chunk.get("usage") or chunk.get("type") is not None:
        return None
    choice = choices[0]
    delta = choice.get("delta") if isinstance(choice, dict) else None
    if not isinstance(delta, dict) or choice.get("finish_reason") or choice.get("logprobs"):
        return None
    text = delta.get("content")
    # All else of it is null.
    return text if type(text) is str and list(delta.values()).count(None) == len(delta) - 1 else None


class _Made:
    """What LangChain has made of a plain chunk, kept to be copied."""

    def __init__(self, converted: ChatGenerationChunk) -> None:
        self._chunk = converted.model_copy(deep=True)
        self._own = _containers(self._chunk.message.__dict__)
        """What each message has its own of."""

    def with_text(self, text: str) -> ChatGenerationChunk:
        chunk, message = copy(self._chunk), copy(self._chunk.message)
        of_message = message.__dict__
        for name, container in self._own:
            of_message[name] = container.copy()
        of_message["content"] = text
        chunk.__dict__.update(message=message, text=message.text)
        return chunk


def _containers(fields: Mapping[str, Any]) -> Sequence[tuple[str, Any]]:
    return [(name, value) for name, value in fields.items() if isinstance(value, dict | list)]


_made: dict[str | None, _Made] = {}
"""By the model's output version, of which there are a few: the only thing of a model that LangChain looks at."""
