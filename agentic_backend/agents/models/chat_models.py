"""ChatModels: the chat models of the settings and the catalog, built once and shared by all agents."""

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from pydantic import ValidationError

from agentic_backend.agents.models.embedding_models import EmbeddingModels, build_embedding
from agentic_backend.agents.models.prepared_calls import with_prepared_calls
from agentic_backend.agents.models.provider_responses import bounded_clients, read_in_linear_time
from agentic_backend.agents.models.stream_retry import with_stream_retry
from agentic_backend.agents.models.streamed_refusals import with_streamed_refusals
from agentic_backend.agents.provider_streams.fast_streams import with_fast_streams
from agentic_backend.config.settings import ModelSettings
from agentic_backend.config.topics.embeddings import EmbeddingSettings
from agentic_backend.disclosure.exception_detail import text_of
from agentic_backend.disclosure.known_secrets import secrets_in
from agentic_backend.errors import AgentUnavailable
from agentic_backend.offline.model import OfflineChatModel

DEFAULT = "default"


class ModelUnavailable(Exception):
    """A model can't be built, for example because its provider's package or its key is missing."""


class ChatModels:
    """Shared by all agents. A model never changes; a reload of the catalog may add some."""

    def __init__(
        self,
        models: Mapping[str, BaseChatModel],
        problems: Sequence[str] = (),
        secrets: Collection[str] = (),
        embeddings: EmbeddingModels | None = None,
    ) -> None:
        self._models = models
        self.embeddings = embeddings or EmbeddingModels()
        """The embedding models of the settings, which stand beside them."""
        self.request_names = _request_names(models)
        """The models' names as their providers are asked for them."""
        self.secrets = secrets
        """The keys, headers and the like among the models' options."""
        self.problems = problems
        """One text for each model that a catalog entry names and that can't be built."""

    def get(self, name: str | None = None) -> BaseChatModel:
        """The model called `name`, or the default one. Raises AgentUnavailable if it does not exist."""
        model = self._models.get(name or DEFAULT)
        if model is None:
            raise AgentUnavailable(f"The model '{name}' is not available.")
        return model

    def missing(self, names: Collection[str]) -> set[str]:
        """Those of the names under which there is no model."""
        return set(names) - self._models.keys()

    def add(self, models: "ChatModels") -> None:
        """Have these models too."""
        self._models = {**models._models, **self._models}
        self.request_names |= models.request_names


def _request_names(models: Mapping[str, BaseChatModel]) -> frozenset[str]:
    # What LangChain tells callbacks of each call.
    told = [model._get_ls_params().get("ls_model_name") for model in models.values()]
    return frozenset(name for name in told if name)


def load_models(
    named: Mapping[str, ModelSettings],
    openai_model: str,
    also: Collection[str] = (),
    *,
    fast_streams: bool = True,
    embeddings: Mapping[str, EmbeddingSettings] | None = None,
) -> ChatModels:
    """Build the `named` models of the settings, and the models in `also` of catalog entries, as `provider:model`.

    Blocks, because it imports providers' packages. Raises ModelUnavailable if a named model can't be built. A model of
    `also` that can't be built becomes a problem and makes its agent unavailable.
    """
    read_in_linear_time()
    models: dict[str, BaseChatModel] = {}
    for name, settings in named.items():
        try:
            models[name] = build_model(settings, openai_model, fast_streams=fast_streams)
        except ModelUnavailable as error:
            raise ModelUnavailable(f"models.{name}: {error}") from error
    problems = []
    for wanted in sorted(set(also) - models.keys()):
        try:
            models[wanted] = build_model(ModelSettings(model=wanted), openai_model, fast_streams=fast_streams)
        except ModelUnavailable as error:
            problems.append(str(error))
    options = {name: settings.options for name, settings in named.items()}
    secrets = secrets_in(
        {"models": options, "embeddings": {name: one.options for name, one in (embeddings or {}).items()}}
    )
    return ChatModels(models, problems, secrets, load_embeddings(embeddings or {}))


def load_embeddings(named: Mapping[str, EmbeddingSettings]) -> EmbeddingModels:
    """Build the embedding models of the settings. Raises ModelUnavailable if one can't be built."""
    models = {}
    for name, settings in named.items():
        try:
            models[name] = build_embedding(settings)
        except Exception as error:
            told = f"the model '{settings.model or settings.class_path}' can't be built: {_reason(error)}"
            raise ModelUnavailable(f"embeddings.{name}: {told}") from error
    return EmbeddingModels(models)


def build_model(settings: ModelSettings, openai_model: str, *, fast_streams: bool = True) -> BaseChatModel:
    """Build the model that `settings` describe. Raises ModelUnavailable with the reason."""
    model = settings.model
    if model == "auto":
        model = f"openai:{openai_model}" if os.environ.get("OPENAI_API_KEY") else "offline"
    built: BaseChatModel
    try:
        if model == "offline":
            built = OfflineChatModel(**settings.options)
        else:
            built = _by_provider(model, settings.options)
            if fast_streams:
                built = with_fast_streams(built)
            built = with_stream_retry(with_streamed_refusals(built))
    except Exception as error:
        # Each provider raises its own errors for a missing key, a wrong option, a missing package.
        raise ModelUnavailable(f"the model '{model}' can't be built: {_reason(error)}") from error
    built = with_prepared_calls(built)
    if settings.context_tokens is not None:
        built.profile = {**(built.profile or {}), "max_input_tokens": settings.context_tokens}
    if settings.images is not None:
        built.profile = {**(built.profile or {}), "image_inputs": settings.images}
    return built


def _by_provider(model: str, options: Mapping[str, Any]) -> BaseChatModel:
    built = init_chat_model(model, **_completed(model, options))
    assert isinstance(built, BaseChatModel), "init_chat_model makes a configurable model only where none is named"
    return built


def _completed(model: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with what OpenAI's package is told: to ask for the usage at any base URL unless they say otherwise,
    and to use HTTP clients that bound the provider's responses.

    The package accepts no clients together with its own proxy option, so the clients have the proxy.
    """
    if not model.startswith("openai:"):
        return dict(options)
    proxy = options.get("openai_proxy") or os.environ.get("OPENAI_PROXY") or None
    return {"stream_usage": True, **options, **bounded_clients(proxy), "openai_proxy": None}


def _reason(error: Exception) -> str:
    """The text of `error` without the values of options, because one may be a key."""
    if isinstance(error, ValidationError):
        problems = error.errors(include_url=False, include_input=False, include_context=False)
        return "; ".join(": ".join([*map(str, problem["loc"]), problem["msg"]]) for problem in problems)
    return next(iter(text_of(error).splitlines()), type(error).__name__)
