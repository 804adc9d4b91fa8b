"""What the settings, the catalog and the files beside them say: read at the start, and again by a reload."""

import hashlib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.agents.catalog.database_entries import is_of_database
from agentic_backend.agents.code.authors_modules import AuthorsModules, PutAside, Stamp, stamp_of
from agentic_backend.agents.models.chat_models import ChatModels, load_models
from agentic_backend.config.loading import (
    SettingsLayers,
    default_catalog,
    default_settings_file,
    load_chat_profiles,
    load_layers,
    modules_file,
)
from agentic_backend.config.settings import Settings
from agentic_backend.config.topics.page import load_logo
from agentic_backend.config.yaml.located_yaml import ConfigError
from agentic_backend.experts.sentinel.operations import OPERATIONS
from agentic_backend.hosting.loading import Applications, load_applications, without_place
from agentic_backend.policy.hooks.modules_file import module_names, read_modules
from agentic_backend.policy.scopes.policies_file import Policies, load_policies
from agentic_backend.server.reload.named_files import NamedFiles

# Python files beside the authors' modules and the catalog that are looked at: a module that can't be imported yet is
# among them.
_MOST_BESIDE = 1_000
# Settings that a reload applies.
_APPLIED = frozenset({"log.level"})


@dataclass(frozen=True, slots=True)
class Configuration:
    settings: Settings
    agents: AgentManager
    policies: Policies
    applications: Applications
    """As they were at the start."""
    digests: Mapping[str, str]
    """Of the files that only a start reads, by path."""

    @property
    def models(self) -> set[str]:
        """The models that entries of the catalog and policies name."""
        return self.policies.models.union(*(agent.models for agent in self.agents.served()))

    def needing_a_restart(self, other: "Configuration") -> list[str]:
        """The names of settings, and the files, that differ from `other` and that a reload does not apply."""
        before, after = (dict(_leaves(one.settings.model_dump())) for one in (self, other))
        missing = object()
        names = [name for name in {**before, **after} if before.get(name, missing) != after.get(name, missing)]
        paths = {**self.digests, **other.digests}
        files = [path for path in paths if self.digests.get(path) != other.digests.get(path)]
        return sorted([name for name in names if name not in _APPLIED] + files)


class CatalogRefused(Exception):
    """What was read is not served; `problems` says why, one line each."""

    def __init__(self, problems: Sequence[object]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = [str(problem) for problem in problems]


@dataclass(frozen=True, slots=True)
class Reread:
    """What a reload has read. Ends with `aside.put_back` or `aside.forget`."""

    configuration: Configuration
    models: ChatModels
    """Those that the catalog names and that were not there yet."""
    aside: PutAside


class ConfigurationFiles:
    """Reads the configuration. Not for two threads at once."""

    def __init__(self, settings_file: Path | None, overrides: Mapping[str, object]) -> None:
        """`overrides`: see `load_settings`. Without a settings file, it is looked for at each reading."""
        self._settings_file = settings_file
        self._overrides = overrides
        self._modules = AuthorsModules()
        # What the catalog names, and the stamp of the catalog that was read for it. Only `files` uses them.
        self._named = NamedFiles()
        self._named_in: Stamp = None
        self._layers: SettingsLayers | None = None
        """Of the settings that were read last."""
        self.read_at_ns = 0
        """When `read` began, in nanoseconds since 1970."""

    def read(self, settings: Settings) -> Configuration:
        """Blocks during the imports. Raises ConfigError if anything but an entry of the catalog is wrong."""
        self.read_at_ns = time.time_ns()
        applications = load_applications(
            settings.applications, self._layers.problem_at if self._layers else without_place
        )
        configuration = self._read(settings, settings, applications)
        self._modules.noted()
        return configuration

    def reread(self, running: Configuration, models: ChatModels) -> Reread:
        """What the files say now, where the settings of `running` stay, and with its models.

        Blocks during the imports. Raises ConfigError, and CatalogRefused if an entry has a problem that none of the
        running catalog has; then the authors' modules are as they were.
        """
        aside = self._modules.put_aside()
        # A compiled file tells the source's time in seconds: of two saves in one second it would show the first.
        writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        try:
            settings = running.settings
            read = self._read(self.settings(), settings, running.applications)
            configuration = self._beside_database(read, running)
            known = {problem.message for problem in running.agents.problems}
            # An agent of the database that leads one that goes is not served; that is no mistake in the files.
            # Nor is one in a package: the operator's catalog is served all the same.
            packages = {str(file) for file in running.applications.catalogs}
            own = [
                problem
                for problem in configuration.agents.problems
                if not is_of_database(problem) and problem.file not in packages
            ]
            problems = [problem for problem in own if problem.message not in known]
            if problems:
                raise CatalogRefused(problems)
            missing = models.missing(configuration.models)
            more = load_models({}, settings.openai_model, missing, fast_streams=settings.fast_streams)
            if problems_of_models := [problem for problem in more.problems if problem not in models.problems]:
                raise CatalogRefused(problems_of_models)
        except BaseException:
            aside.put_back()
            raise
        finally:
            sys.dont_write_bytecode = writes
        return Reread(configuration, more, aside)

    @staticmethod
    def _beside_database(read: Configuration, running: Configuration) -> Configuration:
        """What was read, with the agents of the database that are served."""
        sources = running.agents.sources
        return replace(read, agents=read.agents.with_database(sources.database, sources.wins))

    def files(self, running: Configuration) -> set[Path]:
        """The files that a reload reads, and the Python files beside those of the authors' modules.

        Also those that the catalog names and that are not there yet. Blocks; always from the same thread.
        """
        settings = running.settings
        catalog = settings.catalog or default_catalog()
        named = [
            self._settings_file or default_settings_file(),
            catalog,
            settings.chat_profiles.path,
            modules_file(settings),
            settings.policies.path,
            *running.applications.catalogs,
        ]
        self._read_named(catalog)
        documents = {Path(api.document) for api in settings.apis.values() if not api.is_fetched}
        files = {path for path in named if path is not None} | self._modules.files | self._named.prompts | documents
        folders = {catalog.parent, *(file.parent for file in self._modules.files), *self._named.folders}
        beside = chain.from_iterable(folder.glob("*.py") for folder in folders)
        return files | set(islice(beside, _MOST_BESIDE))

    def _read_named(self, catalog: Path) -> None:
        """As it was, if the catalog is the same or is half saved."""
        if (stamp := stamp_of(catalog)) != self._named_in:
            self._named_in = stamp
            with suppress(ConfigError):
                self._named = NamedFiles.of(catalog)

    def settings(self) -> Settings:
        """Raises ConfigError."""
        settings, self._layers = load_layers(self._settings_file or default_settings_file(), self._overrides)
        return settings

    def _read(self, settings: Settings, applying: Settings, applications: Applications) -> Configuration:
        """The `settings`, and what the files that the settings `applying` name say."""
        load_logo(settings.page)
        profiles = load_chat_profiles(applying)
        servers = {OPERATIONS, *applying.mcp_servers}
        catalog = applying.catalog or default_catalog()
        agents = AgentManager.load(
            catalog,
            applying.models.keys(),
            servers,
            profiles,
            applying.apis,
            may_be_empty=applying.agents.database.enabled,
            shipped=applications.catalogs,
            keys=applications.keys,
        )
        modules = modules_file(applying)
        policies = load_policies(applying, profiles, module_names(modules))
        read_modules(modules, agents.known_ids, policies.modules_on)
        files = [path for path in (modules, applying.policies.path) if path is not None]
        digests = {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
        return Configuration(settings, agents, policies, applications, digests)


def _leaves(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value
