"""Checks a model by the cheapest real call that proves its key and its name.

Where the provider's client can look a model up, that is free and all. Otherwise a short question is asked, and its
answer is cut at the first token: that costs a few tokens.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

from langchain_core.language_models import BaseChatModel

from agentic_backend.agents.models.embedder import EmbeddingFailed
from agentic_backend.agents.models.embedding_models import EmbeddingModel
from agentic_backend.agents.models.provider_failures import typed_failure
from agentic_backend.config.checks import CheckFailed
from agentic_backend.errors import AgenticError, ModelNotFound, ModelRefusedKey
from agentic_backend.offline.model import OfflineChatModel
from agentic_backend.system_errors import summary_of, system_words_of

# A server with the same API may not have the lookup, or not for this key: then only a call can tell.
_NO_LOOKUP = (403, 404, 405, 501)
_QUESTION = "Hi"


async def check_model(name: str, model: BaseChatModel) -> str:
    """What was found, in words; `name` is the model's in the settings, or `provider:model`. Raises CheckFailed."""
    if isinstance(model, OfflineChatModel):
        return "built in; nothing was called"
    known_as = str(getattr(model, "model_name", None) or getattr(model, "model", name))
    try:
        if await _is_looked_up(model, known_as):
            return f"{known_as} looked up at the provider, at no cost"
        # Closed here, as a stream that is only left keeps its connection.
        async with aclosing(cast("AsyncGenerator[Any, None]", model.astream(_QUESTION))) as stream:
            await anext(stream, None)
    except Exception as error:
        # Each provider raises its own errors.
        failure = error if isinstance(error, AgenticError) else typed_failure(error, known_as)
        told = f"{failure.content} {summary_of(error)}" if system_words_of(error) else failure.content
        setting = f"the model {name!r} of the catalog" if ":" in name else f"models.{name}"
        raise CheckFailed(told, _change(setting, failure)) from error
    return f"{known_as} has answered a call, which costs a few tokens"


async def check_embedding(name: str, model: EmbeddingModel) -> str:
    """What was found of an embedding model of the settings, in words. Raises CheckFailed."""
    try:
        made = await model.embed([_QUESTION], "query")
    except EmbeddingFailed as failed:
        raise CheckFailed(failed.error.content, _change(f"embeddings.{name}", failed.error)) from failed
    return f"{model.model} makes vectors of {len(made.vectors[0])} numbers; a call costs a token"


async def _is_looked_up(model: BaseChatModel, known_as: str) -> bool:
    """Whether the provider has a model of this name; False if only a call can tell."""
    # The clients of OpenAI's package and of Anthropic's.
    client: Any = getattr(model, "root_async_client", None) or getattr(model, "_async_client", None)
    models = getattr(client, "models", None)
    if models is None:
        return False
    try:
        await models.retrieve(known_as)
    except Exception as error:
        if getattr(error, "status_code", None) in _NO_LOOKUP:
            return False
        raise
    return True


def _change(setting: str, failure: AgenticError) -> str:
    if isinstance(failure, ModelRefusedKey):
        return f"set the key that {setting} needs"
    if isinstance(failure, ModelNotFound):
        return f"correct the name in {setting}"
    return f"check {setting}, and the network to its provider"
