"""NamedParts: the tools, APIs, middleware and models that a catalog entry names beside its class path.

They are resolved and checked when the catalog is read: authors' modules are imported, and OpenAPI documents that are
files are read. Documents behind URLs are fetched only when an agent is built.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from jsonschema.exceptions import SchemaError  # type: ignore[import-untyped]

from agentic_backend.agents.catalog.catalog import AgentSettings, KnownNames, no_model
from agentic_backend.agents.catalog.entry_parts import ApiUse, MiddlewareUse, is_code_name
from agentic_backend.agents.catalog.named_middleware import middleware_at, models_in, wrong_arguments
from agentic_backend.agents.code.authors_tools import as_tool
from agentic_backend.agents.code.class_path import ClassPathError, authors_code, resolve
from agentic_backend.apis.openapi_document import (
    MOST_SELECTED,
    DocumentError,
    OpenApi,
    operation_names,
    read_document,
)
from agentic_backend.apis.operation import NotUsable, operation_of
from agentic_backend.config.topics.apis import ApiSettings
from agentic_backend.config.yaml.located_yaml import KeyPath
from agentic_backend.inlined_schema import UnusableSchema, usable_schema
from agentic_backend.mcp import POLICY_NAMES, policy_metadata

Mistake = tuple[KeyPath, str]
"""The place in the entry, and the reason."""

_CONFIGURED_KEYS = ("prompt", "apis", "middleware", "output")
_LONGEST_REASON = 300
_MOST_UNKNOWN = 10


@dataclass(frozen=True, slots=True)
class NamedParts:
    """What the names of one entry stand for. A reload compares it, to find the agents that have changed."""

    tool_names: Sequence[str] = ()
    """Of `tools` and, as far as they are known, of `apis`."""
    policy_names: Sequence[str] = ()
    """Further names by which policy may mean the tools of `apis`."""
    has_all_tool_names: bool = True
    """Whether no API or middleware brings further ones."""
    models: frozenset[str] = frozenset()
    """The names of the models that middleware is given."""
    code: Sequence[object] = ()
    """What the `module:name`s of tools and middleware are."""
    documents: Mapping[str, OpenApi] = field(default_factory=dict)
    """Those that are files, by the API's id."""


NOTHING = NamedParts()


def read_parts(settings: AgentSettings, target: object, known: KnownNames) -> tuple[NamedParts, list[Mistake]]:
    """What the entry of an agent with this target names, and the mistakes in it. Blocks."""
    reading = _Reading(settings, known)
    mistakes = [*_keys_without_effect(settings, target), *reading.tools(), *reading.apis(), *reading.middleware()]
    mistakes += _wrong_output(settings)
    return reading.parts(), mistakes


class _Reading:
    def __init__(self, settings: AgentSettings, known: KnownNames) -> None:
        self._settings = settings
        self._known = known
        self._names: list[str] = []
        """What is found, as in NamedParts."""
        self._policy_names: list[str] = []
        self._has_all = True
        self._models: set[str] = set()
        self._code: list[object] = []
        self._documents: dict[str, OpenApi] = {}

    def parts(self) -> NamedParts:
        models = frozenset(self._models)
        return NamedParts(self._names, self._policy_names, self._has_all, models, self._code, self._documents)

    def tools(self) -> Iterator[Mistake]:
        for index, name in enumerate(self._settings.tools):
            if is_code_name(name):
                try:
                    with authors_code("checking it"):
                        found = resolve(name)
                        self._names.append(as_tool(found).name)
                        self._code.append(found)
                except ClassPathError as error:
                    yield ("tools", index), str(error)
                    continue
            else:
                self._names.append(name)
            if Counter(self._names)[self._names[-1]] > 1:
                yield ("tools", index), f"there are two tools called {self._names[-1]!r}"

    def apis(self) -> Iterator[Mistake]:
        for index, use in enumerate(self._settings.apis):
            api = self._known.apis.get(use.id)
            if api is None or api.is_fetched:
                self._has_all = False
                continue
            try:
                document = self._documents.get(use.id) or read_document(Path(api.document))
            except DocumentError as error:
                yield ("apis", index, "id"), f"the OpenAPI document {api.document!r} {error}"
                continue
            self._documents[use.id] = document
            for place, reason in self._operations(use, api, document):
                yield ("apis", index, *place), reason

    def _operations(self, use: ApiUse, api: ApiSettings, document: OpenApi) -> Iterator[Mistake]:
        reasons = ((index, document.unknown(wanted)) for index, wanted in enumerate(use.operations))
        unknown = ((("operations", index), reason) for index, reason in reasons if reason is not None)
        # To look for a similar name among thousands takes a while.
        yield from islice(unknown, _MOST_UNKNOWN)
        selected = document.selected(use.operations)
        if len(selected) > MOST_SELECTED:
            yield ("operations",), f"these are {len(selected)} operations, more than {MOST_SELECTED}"
            return
        for raw, name in zip(selected, operation_names(use.id, selected, self._names), strict=True):
            try:
                operation_of(raw, document, api.auth.header)
                self._names.append(name)
                self._policy_names += policy_metadata(use.id, raw.id, name)[POLICY_NAMES]
            except NotUsable as error:
                named = next((wanted for wanted in use.operations if wanted in (raw.id, raw.signature)), None)
                if named is not None:
                    yield ("operations", use.operations.index(named)), f"this operation can't be a tool: {error}"

    def middleware(self) -> Iterator[Mistake]:
        for index, use in enumerate(self._settings.middleware):
            try:
                with authors_code("checking it"):
                    mistakes = self._one_middleware(use)
            except ClassPathError as error:
                mistakes = [(("name",), str(error))]
            yield from ((("middleware", index, *place), reason) for place, reason in mistakes)

    def _one_middleware(self, use: MiddlewareUse) -> list[Mistake]:
        """Its mistakes, with their places in it. Raises ClassPathError, and what its author's code raises."""
        target = middleware_at(use.name)
        # It may bring tools of its own.
        self._has_all = False
        if is_code_name(use.name):
            self._code.append(target)
        named = list(models_in(target, use.args))
        self._models |= {model for _, model in named}
        unknown: list[Mistake] = [
            (("args", *at), no) for at, model in named if (no := no_model(model, self._known)) is not None
        ]
        wrong = wrong_arguments(target, use.args)
        return [*unknown, *((("args", *at) if at else ("name",), reason) for at, reason in wrong)]


def _keys_without_effect(settings: AgentSettings, target: object) -> Iterator[Mistake]:
    """The keys that have no effect on an agent that is made by code, or on one that is not."""
    if getattr(target, "is_configured", False):
        if settings.tuning.fields:
            yield ("tuning", "fields"), "an agent without code of its own reads no fields; its text is the key 'prompt'"
        return
    for key in _CONFIGURED_KEYS:
        if getattr(settings, key):
            yield (key,), f"only an agent without a class_path has {key!r}; here the code decides"


def _wrong_output(settings: AgentSettings) -> Iterator[Mistake]:
    schema: Mapping[str, Any] | None = settings.output
    if schema is None:
        return
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        yield ("output", *error.absolute_path), f"is no JSON Schema: {error.message[:_LONGEST_REASON]}"
        return
    if schema.get("type") != "object" or not isinstance(schema.get("properties"), Mapping):
        yield ("output",), "expected a JSON Schema with 'type: object' and 'properties'"
        return
    try:
        usable_schema(schema)
    except UnusableSchema as error:
        yield ("output", *error.path), f"no model can be given this JSON Schema: {error}"
