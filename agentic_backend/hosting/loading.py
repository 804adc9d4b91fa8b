"""Finds the applications of a server, and checks what they declare.

An application is an author's code, also while it is imported and made. Whatever is wrong with it becomes a problem that
names its place, and keeps it alone from serving.
"""

import inspect
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import orjson
from langchain.agents.middleware import AgentMiddleware
from pydantic import ValidationError

from agentic_backend.agents.catalog.catalog import AgentTuning, ApplicationKeys
from agentic_backend.agents.code.class_path import ClassPathError, authors_code, resolve
from agentic_backend.agents.models.worker_embedder import WorkerEmbedder
from agentic_backend.agents.parts import PartKind
from agentic_backend.application import Application, ApplicationSettings, Metric
from agentic_backend.config.topics.applications import ApplicationEntry
from agentic_backend.config.yaml.located_yaml import ConfigError, ConfigProblem, KeyPath, dotted, read_yaml
from agentic_backend.config.yaml.validation_problems import ProblemAt, validation_problems
from agentic_backend.hosting.declarations import is_name, is_title
from agentic_backend.hosting.declared_calls import (
    DeclaredCall,
    declared_calls,
    declared_permissions,
    prefix_of,
    previews_in,
    shape_of,
)
from agentic_backend.hosting.declared_commands import DeclaredCommand, declared_commands
from agentic_backend.hosting.declared_metrics import declared_metrics
from agentic_backend.hosting.declared_panels import DeclaredPanel, declared_panels
from agentic_backend.hosting.declared_parts import declared_parts, part_name
from agentic_backend.hosting.declared_records import declared_records
from agentic_backend.hosting.declared_work import (
    DeclaredChore,
    DeclaredHook,
    declared_chores,
    declared_embedder,
    declared_hooks,
    declared_middleware,
    declared_workers,
)
from agentic_backend.records.layout import Layout
from agentic_backend.transports.contract.doors import Door
from agentic_backend.transports.contract.openapi import document_of
from agentic_backend.worker_processes.worker import Worker

log = logging.getLogger(__name__)

GROUP = "agentic_backend.applications"
"""The group of entry points by which installed packages name their applications."""
_MOST_OPENAPI_BYTES = 1024 * 1024
_OWN_IDS = {"mcp"}
"""Those with which the server's own kinds of parts begin."""
_FILE = re.compile(r"[\w.-]{1,100}\.ya?ml")
_VERSION = re.compile(r"[!-~]{1,50}")


@dataclass(frozen=True, slots=True)
class LoadedApplication:
    """An application whose declarations are sound."""

    class_path: str
    id: str
    title: str
    version: str
    application: Application
    calls: Sequence[DeclaredCall]
    openapi: bytes
    """The OpenAPI document of its calls, with the schemas of its parts."""
    catalog: Path | None
    """The file of its agents."""
    agents: Sequence[str]
    """The ids of its agents."""
    hooks: Sequence[DeclaredHook]
    middleware: Sequence[AgentMiddleware[Any, Any, Any]]
    """For the agents whose entries speak to it."""
    chores: Sequence[DeclaredChore]
    layouts: Sequence[Layout[Any]]
    """The layouts of its records."""
    metrics: Sequence[Metric]
    parts: Sequence[PartKind[Any]]
    panels: Sequence[DeclaredPanel]
    commands: Sequence[DeclaredCommand]
    workers: Sequence[Worker]
    embedder: WorkerEmbedder | None
    tuning: type[ApplicationSettings] | None
    """The model of its key in the `tuning` of agents."""


@dataclass(frozen=True, slots=True)
class Applications:
    loaded: Sequence[LoadedApplication] = ()
    refused: Sequence[str] = ()
    """The class paths of those that can't serve."""
    problems: Sequence[ConfigProblem] = ()
    """Why they can't."""

    @property
    def catalogs(self) -> list[Path]:
        """The files of the agents of those that were loaded."""
        return [each.catalog for each in self.loaded if each.catalog is not None]

    @property
    def keys(self) -> ApplicationKeys:
        """The keys that they have in the `tuning` of agents."""
        models = {each.id: each.tuning for each in self.loaded if each.tuning is not None}
        return ApplicationKeys(models, are_all=not self.refused)

    @property
    def middleware(self) -> dict[str, Sequence[AgentMiddleware[Any, Any, Any]]]:
        """Their middleware, by their ids, for the agents whose entries speak to them."""
        return {each.id: each.middleware for each in self.loaded if each.middleware}


NO_APPLICATIONS = Applications()


def without_place(path: KeyPath, message: str, *, at_key: bool = False) -> ConfigProblem:
    return ConfigProblem("settings", None, None, dotted(path), message)


def load_applications(entries: Sequence[ApplicationEntry], problem_at: ProblemAt = without_place) -> Applications:
    """The applications of the setting `applications`, then those that installed packages name; each is made, once.

    `problem_at` tells the place of a problem in the settings. Blocks during the imports.
    """
    loaded: list[LoadedApplication] = []
    refused: list[str] = []
    problems: list[ConfigProblem] = []
    for entry, problem_of in _found(entries, problem_at):
        try:
            found = _loaded(entry, loaded, problem_of)
        except ClassPathError as error:
            found = [problem_of(("class_path",), str(error))]
        if isinstance(found, LoadedApplication):
            loaded.append(found)
        else:
            refused.append(entry.class_path)
            problems += found
    return Applications(loaded, refused, problems)


def _found(entries: Sequence[ApplicationEntry], problem_at: ProblemAt) -> Iterator[tuple[ApplicationEntry, ProblemAt]]:
    """The entries that are enabled, also of those that only a package names, and what tells the place of a problem."""
    for index, entry in enumerate(entries):
        if entry.enabled:
            yield entry, _below(problem_at, ("applications", index))
    named = {_spelled(entry.class_path) for entry in entries}
    for point in _installed():
        if _spelled(point.value) not in named:
            named.add(_spelled(point.value))
            yield ApplicationEntry.model_construct(class_path=point.value), _of_entry_point(point)


def _installed() -> list[EntryPoint]:
    try:
        return sorted(entry_points(group=GROUP), key=lambda point: point.name)
    except Exception:
        # The metadata of any package, whatever it is for, may be broken.
        log.exception("entry points of packages can't be read")
        return []


def _spelled(class_path: str) -> str:
    return class_path.replace(":", ".").replace(" ", "")


def _below(problem_at: ProblemAt, base: KeyPath) -> ProblemAt:
    def problem(path: KeyPath, message: str, *, at_key: bool = False) -> ConfigProblem:
        return problem_at((*base, *path), message, at_key=at_key)

    return problem


def _of_entry_point(point: EntryPoint) -> ProblemAt:
    def problem(path: KeyPath, message: str, *, at_key: bool = False) -> ConfigProblem:
        package = point.dist.name if point.dist is not None else "installed package"
        return ConfigProblem(package, None, None, f"{GROUP}: {point.name}", message)

    return problem


def _loaded(
    entry: ApplicationEntry, others: Sequence[LoadedApplication], problem_of: ProblemAt
) -> LoadedApplication | list[ConfigProblem]:
    """The application of the entry beside `others`, or what is wrong with its settings. Raises ClassPathError."""
    target = resolve(entry.class_path)
    # Whatever is read of it may be code of the author.
    with authors_code("reading what it declares"):
        if not (isinstance(target, type) and issubclass(target, Application)):
            raise ClassPathError("is no subclass of Application")
        application_id = _declared(target, "id", is_name, "lower-case letters, digits and '-', at most 32")
        title = _declared(target, "title", is_title, "a text of at most 100 characters, all of which are seen")
        version = _declared(target, "version", _VERSION.fullmatch, "a text of at most 50 characters without spaces")
        if application_id in _OWN_IDS:
            raise ClassPathError(f"the id {application_id!r} is the server's own")
        if any(application_id == other.id for other in others):
            raise ClassPathError(f"the id {application_id!r} is taken by another application")
        try:
            settings = target.Settings.model_validate(entry.settings)
        except ValidationError as error:
            return validation_problems(error, target.Settings, problem_of, ("settings",))
        try:
            application = target(settings)
        except ConfigError as error:
            return error.problems
        calls = declared_calls(application_id, application.calls(), declared_permissions(target.permissions))
        _require_free_paths(calls, others)
        parts = declared_parts(target.parts)
        openapi = _openapi(target, application_id, title, version, calls, parts)
        catalog = _catalog(target)
        hooks, chores, workers = application.hooks(), application.chores(), declared_workers(application.workers())
        commands = declared_commands(application.commands())
        _require_free_names(commands, others)
        return LoadedApplication(
            class_path=entry.class_path,
            id=application_id,
            title=title,
            version=version,
            application=application,
            calls=calls,
            openapi=openapi,
            catalog=catalog,
            agents=_agents_of(catalog),
            hooks=declared_hooks(application_id, hooks),
            middleware=declared_middleware(application.middleware(), target.Tuning is not None),
            chores=declared_chores(application_id, chores),
            layouts=declared_records(application_id, target.records),
            metrics=declared_metrics(target.metrics),
            parts=parts,
            panels=declared_panels(application_id, target, parts, previews_in(calls)),
            commands=commands,
            workers=workers,
            embedder=declared_embedder(application.embedder(), workers),
            tuning=_tuning(target, application_id),
        )


def _require_free_paths(calls: Sequence[DeclaredCall], others: Sequence[LoadedApplication]) -> None:
    taken = {shape_of(call.operation): other.id for other in others for call in other.calls}
    for call in calls:
        if (other := taken.get(shape_of(call.operation))) is not None:
            told = f"{call.operation.method} {call.operation.path}"
            raise ClassPathError(f"the call {told} is also one of the application {other!r}")


def _require_free_names(commands: Sequence[DeclaredCommand], others: Sequence[LoadedApplication]) -> None:
    taken = {command.name: other.id for other in others for command in other.commands}
    for command in commands:
        if (other := taken.get(command.name)) is not None:
            raise ClassPathError(f"the command {command.name!r} is also one of the application {other!r}")


def _declared(target: type[Application], name: str, is_fit: Callable[[str], object], expected: str) -> str:
    value = getattr(target, name, None)
    if type(value) is not str or not is_fit(value):
        raise ClassPathError(f"the class needs {name!r}: {expected}")
    return value


def _tuning(target: type[Application], application_id: str) -> type[ApplicationSettings] | None:
    model = target.Tuning
    if model is None:
        return None
    if not (isinstance(model, type) and issubclass(model, ApplicationSettings)):
        raise ClassPathError("'Tuning' has to be a subclass of ApplicationSettings")
    if application_id in AgentTuning.model_fields:
        raise ClassPathError(f"with a 'Tuning', the id can't be {application_id!r}: that is a key of every agent's")
    try:
        model.model_validate({})
    except ValidationError:
        raise ClassPathError("each field of 'Tuning' needs a default: most agents say nothing to it") from None
    return model


def _catalog(target: type[Application]) -> Path | None:
    if target.catalog is None:
        return None
    if type(target.catalog) is not str or not _FILE.fullmatch(target.catalog):
        raise ClassPathError("'catalog' has to be the name of a file, such as 'agents_catalog.yaml'")
    file = Path(inspect.getfile(target)).parent / target.catalog
    if not file.is_file():
        raise ClassPathError(f"there is no file {str(file)!r}, which its 'catalog' names")
    return file


def _agents_of(catalog: Path | None) -> list[str]:
    """The ids in the file, as far as it can be read: its faults are the catalog's."""
    try:
        entries = read_yaml(catalog).values.get("agents") if catalog is not None else None
    except ConfigError:
        return []
    ids = [entry.get("id") for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    return [each for each in ids if isinstance(each, str)]


def _openapi(
    target: type[Application],
    application_id: str,
    title: str,
    version: str,
    calls: Sequence[DeclaredCall],
    parts: Sequence[PartKind[Any]],
) -> bytes:
    description = inspect.getdoc(target) or title
    info = {"title": title, "version": version, "description": description}
    at_root = [call.operation.path for call in calls if not call.operation.path.startswith(prefix_of(application_id))]
    door = Door(application_id, (prefix_of(application_id), *at_root), description)
    models = {part_name(application_id, kind): kind.model for kind in parts}
    document = orjson.dumps(document_of([call.operation for call in calls], info, [door], models))
    if len(document) > _MOST_OPENAPI_BYTES:
        raise ClassPathError(f"its OpenAPI document is larger than {_MOST_OPENAPI_BYTES} bytes")
    return document
