"""ChatModels: the chat models that settings and catalog name, built once at the start and shared by all agents."""

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from pydantic import ValidationError

from agentic_backend.agents.broken_streams import asking_again
from agentic_backend.agents.offline_model import OfflineChatModel
from agentic_backend.agents.partial_json import read_in_linear_time
from agentic_backend.errors import AgentUnavailable
from agentic_backend.redaction import redact
from agentic_backend.settings import ModelSettings

DEFAULT = "default"


class ModelUnavailable(Exception):
    """A model that can't be built: its provider's package or its key is missing, say."""


class ChatModels:
    """`problems` says of each model that a catalog entry wants, and that can't be built, why."""

    def __init__(self, models: Mapping[str, BaseChatModel], problems: Sequence[str] = ()) -> None:
        self._models = models
        self.problems = problems

    def get(self, name: str | None = None) -> BaseChatModel:
        """The model called `name`, or the default one. Raises AgentUnavailable where there is none."""
        model = self._models.get(name or DEFAULT)
        if model is None:
            raise AgentUnavailable(f"The model '{name}' is not available.")
        return model


def load_models(named: Mapping[str, ModelSettings], openai_model: str, also: Collection[str] = ()) -> ChatModels:
    """Build the `named` models, and those `also` wanted by catalog entries as `provider:model`.

    Blocks: providers' packages are imported. Raises ModelUnavailable for a named model only; another one is a problem,
    and its agent is not available.
    """
    read_in_linear_time()
    models: dict[str, BaseChatModel] = {}
    for name, settings in named.items():
        try:
            models[name] = build_model(settings, openai_model)
        except ModelUnavailable as error:
            raise ModelUnavailable(f"models.{name}: {error}") from error
    problems = []
    for wanted in sorted(set(also) - models.keys()):
        try:
            models[wanted] = build_model(ModelSettings(model=wanted), openai_model)
        except ModelUnavailable as error:
            problems.append(str(error))
    return ChatModels(models, problems)


def build_model(settings: ModelSettings, openai_model: str) -> BaseChatModel:
    """The model that `settings` describe. Raises ModelUnavailable, which says why."""
    model = settings.model
    if model == "auto":
        model = f"openai:{openai_model}" if os.environ.get("OPENAI_API_KEY") else "offline"
    try:
        if model == "offline":
            return OfflineChatModel(**settings.options)
        built = init_chat_model(model, **{**_bounds(model, settings.options), **settings.options})
    except Exception as error:
        # Providers raise errors of their own kinds for a missing key, a wrong option, a missing package.
        raise ModelUnavailable(f"the model '{model}' can't be built: {_reason(error)}") from error
    assert isinstance(built, BaseChatModel), "init_chat_model makes a configurable model only where none is named"
    return asking_again(built)


def _bounds(model: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """What bounds the responses that the provider's package reads, where that takes an HTTP client.

    It takes none beside a proxy of its own; those of the environment (HTTPS_PROXY) are used in any case.
    """
    if not model.startswith("openai:") or "openai_proxy" in options or os.environ.get("OPENAI_PROXY"):
        return {}
    from agentic_backend.agents.bounded_client import bounded_client

    return {"http_async_client": bounded_client()}


def _reason(error: Exception) -> str:
    """What `error` says, without the values of options: a key may be among them."""
    if isinstance(error, ValidationError):
        problems = error.errors(include_url=False, include_input=False, include_context=False)
        return "; ".join(": ".join([*map(str, problem["loc"]), problem["msg"]]) for problem in problems)
    return redact(next(iter(str(error).splitlines()), type(error).__name__))
