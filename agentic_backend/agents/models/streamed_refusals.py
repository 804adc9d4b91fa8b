"""Keeps the refusals that OpenAI's Chat Completions stream: LangChain's package drops them from its chunks."""

from collections.abc import Mapping
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.outputs import ChatGenerationChunk

from agentic_backend.agents.models.mixins import with_mixins


def with_streamed_refusals(model: BaseChatModel) -> BaseChatModel:
    """Make `model`, if it is of OpenAI's package, tell a refusal in `additional_kwargs`, as its whole responses do."""
    return with_mixins(model, _TellsRefusals) if hasattr(type(model), "_convert_chunk_to_generation_chunk") else model


class _TellsRefusals:
    """A mixin that precedes the provider's class in the bases."""

    def _convert_chunk_to_generation_chunk(self, chunk: Any, *args: Any, **kwargs: Any) -> ChatGenerationChunk | None:
        converted: ChatGenerationChunk | None
        converted = super()._convert_chunk_to_generation_chunk(chunk, *args, **kwargs)  # type: ignore[misc]
        if converted is not None and (refusal := _refusal(chunk)):
            converted.message.additional_kwargs["refusal"] = refusal
        return converted


def _refusal(chunk: object) -> str:
    choices = chunk.get("choices") if isinstance(chunk, Mapping) else None
    delta = choices[0].get("delta") if choices else None
    refusal = delta.get("refusal") if isinstance(delta, Mapping) else None
    return refusal if isinstance(refusal, str) else ""
