"""The catalog, the settings and the models of a tested agent, read and checked by the code that serves them."""

import copy
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel

from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.agents.models.chat_models import DEFAULT, ChatModels, load_models
from agentic_backend.agents.models.embedding_models import EmbeddingModel, EmbeddingModels
from agentic_backend.agents.models.prepared_calls import with_prepared_calls
from agentic_backend.config.loading import default_catalog, load_chat_profiles, load_settings
from agentic_backend.config.settings import Settings
from agentic_backend.config.topics.embeddings import EmbeddingSettings
from agentic_backend.experts.sentinel.operations import OPERATIONS
from agentic_backend.hosting.loading import Applications, load_applications

AGENT_ID = "agent"
"""The id of an agent that a test gives itself."""

_OFFLINE = {"models": {DEFAULT: {"model": "offline", "options": {"words_per_second": 0}}}}
_numbers = count(1)


class ApplicationProblems(Exception):
    """The application can't be served; the text has each problem as `validate` tells it."""


class CatalogProblems(Exception):
    """The agent can't be served as its catalog entry says; the text has each problem as `validate` tells it."""


@dataclass(frozen=True)
class ServedCatalog:
    """What a server needs for a tested agent, whose id is `agent_id`."""

    settings: Settings
    agents: AgentManager
    models: ChatModels
    agent_id: str
    applications: Applications


@contextmanager
def served_catalog(
    agent: object,
    directory: Path,
    *,
    entry: Mapping[str, Any] | None = None,
    catalog: Path | None = None,
    settings: Path | Mapping[str, Any] | None = None,
    model: BaseChatModel | None = None,
    models: Mapping[str, BaseChatModel] | None = None,
) -> Iterator[ServedCatalog]:
    """`agent` as a server would serve it, with data in `directory`; see `open_agent`. Raises CatalogProblems."""
    read = _settings(settings, directory)
    if isinstance(agent, str) and ":" not in agent:
        file = catalog or read.catalog or default_catalog()
        yield _loaded(read, file, agent, model, models or {})
        return
    with _given(agent, entry or {}, directory) as file:
        yield _loaded(read, file, AGENT_ID, model, models or {})


def served_application(
    class_path: str,
    settings: Mapping[str, Any],
    directory: Path,
    store: str | None,
    embeddings: Embeddings | None = None,
    model: BaseChatModel | None = None,
) -> ServedCatalog:
    """An application as a server would serve it, with its own agents. Raises ApplicationProblems."""
    entry = {"class_path": class_path, "settings": dict(settings)}
    read = _settings({"applications": [entry]}, directory)
    if store is not None:
        read = read.model_copy(update={"store": read.store.model_copy(update={"url": store})})
    applications = load_applications(read.applications)
    if applications.problems:
        raise ApplicationProblems("\n".join(map(str, applications.problems)))
    file = directory / "agents_catalog.yaml"
    file.write_text("agents: []\n")
    servers = {OPERATIONS, *read.mcp_servers}
    profiles, shipped, keys = load_chat_profiles(read), applications.catalogs, applications.keys
    agents = AgentManager.load(
        file, read.models.keys(), servers, profiles, read.apis, may_be_empty=True, shipped=shipped, keys=keys
    )
    if agents.problems:
        raise ApplicationProblems("\n".join(map(str, agents.problems)))
    names = {DEFAULT, *read.models, *(name for agent in agents.served() for name in agent.models)}
    models = _models(read, names, model, {})
    if embeddings is not None:
        if not isinstance(embeddings, Embeddings):
            raise TypeError(f"expected embeddings such as ScriptedEmbeddings(), found {embeddings!r}")
        scripted = EmbeddingSettings(class_path=f"{type(embeddings).__module__}:{type(embeddings).__name__}")
        models.embeddings = EmbeddingModels({DEFAULT: EmbeddingModel(embeddings, scripted)})
    return ServedCatalog(read, agents, models, "", applications)


def _settings(given: Path | Mapping[str, Any] | None, directory: Path) -> Settings:
    """The given settings on a new SQLite file, for one developer; nothing of them reaches out by itself."""
    if isinstance(given, Path):
        settings = load_settings(given, {})
    else:
        settings = Settings.model_validate({**_OFFLINE, **(given or {})})
    of_a_test = {
        "data": settings.data.model_copy(update={"directory": directory}),
        "store": settings.store.model_copy(update={"url": None}),
        "auth": settings.auth.model_copy(update={"mode": "developer"}),
        "broadcast": settings.broadcast.model_copy(update={"url": None}),
        "server": settings.server.model_copy(update={"workers": 1, "grace_s": 0.0}),
        "tracing": settings.tracing.model_copy(update={"endpoint": None}),
        # A title would take a turn of a scripted model.
        "titles": settings.titles.model_copy(update={"enabled": False}),
    }
    return settings.model_copy(update=of_a_test)


@contextmanager
def _given(agent: object, entry: Mapping[str, Any], directory: Path) -> Iterator[Path]:
    """A catalog with one entry for the agent, an object or the class path of one."""
    path, module = agent, None
    if not isinstance(agent, str):
        module = ModuleType(f"agentic_backend_tested_{next(_numbers)}")
        vars(module)["agent"] = agent
        sys.modules[module.__name__] = module
        path = f"{module.__name__}:agent"
    file = directory / "agents_catalog.yaml"
    file.write_text(yaml.safe_dump({"agents": [{**entry, "id": AGENT_ID, "class_path": path}]}))
    try:
        yield file
    finally:
        if module is not None:
            del sys.modules[module.__name__]
        # AgentManager finds authors' modules beside the catalog.
        folder = str(directory.resolve())
        sys.path[:] = [other for other in sys.path if other != folder]


def _loaded(
    settings: Settings, file: Path, agent_id: str, model: BaseChatModel | None, models: Mapping[str, BaseChatModel]
) -> ServedCatalog:
    names = {DEFAULT, *settings.models, *models}
    servers = {OPERATIONS, *settings.mcp_servers}
    # A ConfigError, where no agent can be served, tells the problems as well as these do.
    applications = load_applications(settings.applications)
    profiles = load_chat_profiles(settings)
    shipped, keys = applications.catalogs, applications.keys
    agents = AgentManager.load(file, names, servers, profiles, settings.apis, shipped=shipped, keys=keys)
    served = {agent.settings.id for agent in agents.served()}
    if agent_id not in served:
        absent = f"{file} serves no agent {agent_id!r}; there are: {', '.join(sorted(served))}"
        raise CatalogProblems("\n".join([absent, *map(str, agents.problems)]))
    if agent_id == AGENT_ID and agents.problems:
        raise CatalogProblems("\n".join(map(str, agents.problems)))
    named = {name for agent in agents.served() for name in agent.models}
    return ServedCatalog(settings, agents, _models(settings, names | named, model, models), agent_id, applications)


def _models(
    settings: Settings, names: set[str], model: BaseChatModel | None, models: Mapping[str, BaseChatModel]
) -> ChatModels:
    given = {**({} if model is None else dict.fromkeys(names, model)), **models}
    for one in given.values():
        if not isinstance(one, BaseChatModel):
            raise TypeError(f"expected a chat model such as ScriptedModel('Hello'), found {one!r}")
    # Copies: the server prepares a model's calls by changing its class.
    prepared = ChatModels({name: with_prepared_calls(copy.copy(one)) for name, one in given.items()})
    missing = names - given.keys()
    if not missing:
        return prepared
    own = {name: one for name, one in settings.models.items() if name in missing}
    prepared.add(load_models(own, settings.openai_model, missing - own.keys(), fast_streams=settings.fast_streams))
    return prepared
