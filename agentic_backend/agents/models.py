"""ChatModels: the chat models that settings and catalog name, built once at the start and shared by all agents."""

import os
from collections.abc import Collection, Mapping

from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel

from agentic_backend.agents.offline_model import OfflineChatModel
from agentic_backend.errors import AgentUnavailable
from agentic_backend.settings import ModelSettings

DEFAULT = "default"


class ModelUnavailable(Exception):
    """A model that can't be built: its provider's package or its key is missing, say."""


class ChatModels:
    def __init__(self, models: Mapping[str, BaseChatModel]) -> None:
        self._models = models

    def get(self, name: str | None = None) -> BaseChatModel:
        """The model called `name`, or the default one. Raises AgentUnavailable where there is none."""
        model = self._models.get(name or DEFAULT)
        if model is None:
            raise AgentUnavailable(f"The model '{name}' is not available.")
        return model


def load_models(named: Mapping[str, ModelSettings], openai_model: str, also: Collection[str] = ()) -> ChatModels:
    """Build the `named` models, and those `also` wanted by catalog entries as `provider:model`.

    Blocks: providers' packages are imported. Raises ModelUnavailable for a named model only; the agent of another one
    is not available.
    """
    models = {name: build_model(name, settings, openai_model) for name, settings in named.items()}
    for wanted in set(also) - models.keys():
        try:
            models[wanted] = build_model(wanted, ModelSettings(model=wanted), openai_model)
        except ModelUnavailable:
            continue
    return ChatModels(models)


def build_model(name: str, settings: ModelSettings, openai_model: str) -> BaseChatModel:
    """The model that `settings` describe. Raises ModelUnavailable."""
    model = settings.model
    if model == "auto":
        model = f"openai:{openai_model}" if os.environ.get("OPENAI_API_KEY") else "offline"
    try:
        if model == "offline":
            return OfflineChatModel(**settings.options)
        built = init_chat_model(model, **settings.options)
    except Exception as error:
        # Providers raise errors of their own kinds for a missing key, an unknown option, a missing package.
        reason = str(error) if isinstance(error, ImportError) else type(error).__name__
        raise ModelUnavailable(f"models.{name}: the model '{model}' can't be built: {reason}") from error
    assert isinstance(built, BaseChatModel), "init_chat_model makes a configurable model only where none is named"
    return built
