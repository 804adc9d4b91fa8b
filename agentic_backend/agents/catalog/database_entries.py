"""The entries of the catalog in the database: read like those of the YAML file, within what the settings allow.

Invariant: no module is imported that the setting `agents.database.classes` does not allow, whatever is in the database.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from string import Formatter
from typing import Any

from agentic_backend.agents.agent_manager import imported, resolved_target
from agentic_backend.agents.catalog.allowed_code import AllowedCode
from agentic_backend.agents.catalog.catalog import (
    NO_KEYS,
    AgentSettings,
    ApplicationKeys,
    CatalogEntry,
    KnownNames,
    read_entry,
)
from agentic_backend.agents.catalog.catalog_sources import ImportedEntry
from agentic_backend.agents.catalog.entry_references import Reference, code_names, code_names_in, file_names
from agentic_backend.agents.code.class_path import resolve
from agentic_backend.config.topics.apis import ApiSettings
from agentic_backend.config.yaml.located_yaml import (
    ConfigError,
    ConfigProblem,
    KeyPath,
    LocatedYaml,
    Place,
    Position,
    yaml_in,
)

LONGEST_ENTRY = 65_536
"""In bytes of UTF-8."""
_MOST_VALUES = 5_000
_IDS_OF_CALLS = ("check", "export", "import", "schema")
_LONGEST_NAME = 200
_IN_DATABASE = "database:"


# Arguments of LangChain's middleware whose work has no bound. Agents of the database may not have them. Pure.

_DETECTOR = (
    "agents of the database give no regular expression: some take so long on a text that the server stands still. "
    "Name one of LangChain's kinds as 'pii_type', or a middleware as 'module:name'"
)
_TEMPLATE = (
    "agents of the database give a prompt with one '{messages}' and nothing else in braces; a brace itself is '{{'"
)


def unbounded_arguments(settings: AgentSettings) -> Iterator[Reference]:
    """Each such argument's place in the entry, and why it is none."""
    for index, use in enumerate(settings.middleware):
        if use.name == "PIIMiddleware" and use.args.get("detector") is not None:
            yield ("middleware", index, "args", "detector"), _DETECTOR
        template = use.args.get("summary_prompt")
        if use.name == "SummarizationMiddleware" and template is not None and not _is_plain(template):
            yield ("middleware", index, "args", "summary_prompt"), _TEMPLATE


def _is_plain(template: object) -> bool:
    """Whether `str.format` puts in the messages once at most, as they are: a width alone can take all memory."""
    if not isinstance(template, str):
        return False
    try:
        fields = [field[1:] for field in Formatter().parse(template) if field[1] is not None]
    except ValueError:
        return False
    return fields in ([], [("messages", "", None)])


@dataclass(frozen=True, slots=True)
class DatabaseEntry:
    entry: CatalogEntry
    problems: Sequence[ConfigProblem]
    forbidden: Sequence[str]
    """The classes and MCP servers that it names and may not name."""

    @property
    def is_good(self) -> bool:
        return not self.problems


class DatabaseEntries:
    def __init__(
        self,
        allowed: AllowedCode,
        models: Collection[str],
        mcp_servers: Collection[str],
        apis: Mapping[str, ApiSettings],
        keys: ApplicationKeys = NO_KEYS,
    ) -> None:
        """`models`, `mcp_servers` and `apis` are those of the settings, `keys` those of applications."""
        self._allowed = allowed
        self._mcp_servers = mcp_servers
        self._known = KnownNames(models, mcp_servers, other_models=False, apis=apis, applications=keys)

    def read(self, yaml: str, profiles: Collection[str], agent_id: str | None = None) -> DatabaseEntry:
        """The entry that a text is; its id must be `agent_id` if that is given. `profiles`: names of chat profiles."""
        file = file_of(agent_id)
        try:
            document = document_of(file, yaml, LONGEST_ENTRY, _MOST_VALUES)
        except ConfigError as error:
            empty = LocatedYaml(file, {}, {(): Place(None, Position(1, 1))})
            return DatabaseEntry(CatalogEntry((), agent_id, None, empty), error.problems, ())
        found = self.entry_in(document, (), document.values, profiles)
        if agent_id is None or found.entry.id == agent_id:
            return found
        other = document.problem(("id",), f"the id of an agent can't be changed: expected {agent_id!r}")
        bad = CatalogEntry((), agent_id, None, document)
        return replace(found, entry=bad, problems=[*found.problems, other])

    def entry_in(
        self,
        document: LocatedYaml,
        path: KeyPath,
        value: Any,
        profiles: Collection[str],
        earlier: Sequence[CatalogEntry] = (),
    ) -> DatabaseEntry:
        """The entry at `path` of a document, after the `earlier` ones."""
        entry, problems = read_entry(document, path, value, self._known._replace(chat_profiles=profiles), earlier)
        problems += [problem for place, problem in document.flaws if place[: len(path)] == path]
        named = code_names_in(value) if entry.settings is None else code_names(entry.settings)
        names = [(place, name) for place, name in named if not self._allowed.allows(name)]
        if entry.settings is not None:
            text = "agents of the database read no files: give the text itself"
            problems += [entry.problem(place, text) for place, _ in file_names(entry.settings)]
            problems += [entry.problem(place, reason) for place, reason in unbounded_arguments(entry.settings)]
        problems += [entry.problem(place, f"{_not_allowed(name)} agents.database.classes") for place, name in names]
        if entry.id in _IDS_OF_CALLS:
            problems.append(entry.problem(("id",), f"no agent of the database may be called {entry.id!r}"))
        servers = [name for name in _servers_in(value) if name not in self._mcp_servers]
        forbidden = [name[:_LONGEST_NAME] for name in (*(name for _, name in names), *servers)]
        return DatabaseEntry(replace(entry, settings=None) if problems else entry, problems, forbidden)

    def imported(self, read: DatabaseEntry, *, is_enabled: bool = True) -> ImportedEntry:
        """The entry with what it names, which is imported if the entry is good and enabled. Blocks."""
        if not read.is_good or not is_enabled or read.entry.settings is None:
            return ImportedEntry(read.entry, is_enabled=is_enabled, problems=read.problems)
        # Whether it is enabled is kept beside the text.
        enabled = replace(read.entry, settings=read.entry.settings.model_copy(update={"enabled": True}))
        return imported(enabled, self._known, target_of=self._target_of)

    def _target_of(self, settings: AgentSettings) -> object:
        for _, name in code_names(settings):
            self._allowed.require_own(name, resolve(name))
        return resolved_target(settings)


def file_of(agent_id: str | None) -> str:
    """What problems call the text of an agent in the database."""
    return f"{_IN_DATABASE}{agent_id or ''}"


def is_of_database(problem: ConfigProblem) -> bool:
    return problem.file.startswith(_IN_DATABASE)


def document_of(file: str, yaml: str, longest: int, most_values: int) -> LocatedYaml:
    """Raises ConfigError, also for a text that is too long."""
    if len(yaml) > longest or len(yaml.encode(errors="replace")) > longest:
        raise ConfigError([ConfigProblem(file, 1, 1, "", f"longer than {longest} bytes")])
    return yaml_in(file, yaml, most_values)


def _not_allowed(name: str) -> str:
    return f"{name[:_LONGEST_NAME]!r} is not among the classes that agents of the database may name: see the setting"


def _servers_in(value: Any) -> Iterator[str]:
    tuning = value.get("tuning") if isinstance(value, dict) else None
    uses = tuning.get("mcp_servers") if isinstance(tuning, dict) else None
    for use in uses if isinstance(uses, list) else ():
        name = use.get("id") if isinstance(use, dict) else None
        if isinstance(name, str):
            yield name
