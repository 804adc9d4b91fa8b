"""Tuning fields: checks the fields of catalog entries against what their agents declare, and finds keys without effect.

An AgentFlow class declares its fields as a pydantic model, `Fields`; a function by a parameter that is annotated with
one; a compiled graph by its `context_schema`.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from langgraph.pregel import Pregel
from pydantic import BaseModel

from agentic_backend.agents.agent_flow import AgentFlow
from agentic_backend.agents.catalog.catalog import AgentSettings, misfits
from agentic_backend.agents.code.factory_arguments import fields_schema, wanted_by
from agentic_backend.agents.code.graph_context import field_names, is_context_schema, wrong_fields
from agentic_backend.config.yaml.located_yaml import ConfigProblem, KeyPath, LocatedYaml
from agentic_backend.config.yaml.validation_problems import near_miss
from agentic_backend.errors import AgentUnavailable

_FIELDS = ("tuning", "fields")


def wrong(settings: AgentSettings, target: Any, document: LocatedYaml, entry: KeyPath) -> list[ConfigProblem]:
    """The fields of the entry that its agent can't be made with, each with its place."""
    base, given = (*entry, *_FIELDS), settings.tuning.fields
    if isinstance(target, Pregel):
        try:
            return [document.problem((*base, name), why) for name, why in wrong_fields(target.context_schema, given)]
        except AgentUnavailable as error:
            return [document.problem((*entry, "class_path"), str(error))]
    declared = _declared(target)
    if declared is None:
        return []
    if not isinstance(declared, type) or not issubclass(declared, BaseModel):
        return [document.problem((*entry, "class_path"), "the `Fields` of the class are no pydantic model")]
    try:
        known = field_names(declared)
    except AgentUnavailable as error:
        return [document.problem((*entry, "class_path"), str(error))]
    unknown = [] if declared.model_config.get("extra") == "allow" else _unknown(given, known)
    fitting = {name: value for name, value in given.items() if name in known}
    return [
        *(document.problem((*base, name), message, at_key=True) for name, message in unknown),
        *misfits(declared, fitting, document, base, "the class of the fields"),
    ]


def ignored(settings: AgentSettings, target: Any, document: LocatedYaml, entry: KeyPath) -> Iterator[ConfigProblem]:
    """The keys of the entry that change nothing; the agent is served without them."""
    what = "a compiled graph" if isinstance(target, Pregel) else "a function that does not take it"
    if settings.model is not None and not _takes_model(target):
        hint = "; give a function that takes the model and returns the graph" if isinstance(target, Pregel) else ""
        yield document.problem((*entry, "model"), f"has no effect on {what}{hint}", at_key=True)
    # Where nothing declares the fields, nodes may read them in `configurable`.
    if isinstance(target, Pregel) and is_context_schema(target.context_schema):
        for name, message in _unknown(settings.tuning.fields, field_names(target.context_schema)):
            yield document.problem((*entry, *_FIELDS, name), message, at_key=True)


def _declared(target: Any) -> Any:
    return target.Fields if isinstance(target, type) and issubclass(target, AgentFlow) else fields_schema(target)


def _takes_model(target: Any) -> bool:
    """Whether the agent gets the entry's model."""
    if isinstance(target, Pregel | type):
        return isinstance(target, type)
    return any(wanted.kind == "model" for wanted in wanted_by(target))


def _unknown(given: Mapping[str, Any], known: Collection[str]) -> list[tuple[str, str]]:
    """The names in `given` that are not `known`, each with its message."""
    there_are = f"; the fields are {', '.join(known) or 'none'}"
    return [
        (name, f"unknown field {name!r}{near_miss(name, known) or there_are}") for name in given if name not in known
    ]
