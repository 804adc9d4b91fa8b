"""The arguments of an author's function that makes a graph: each parameter gets what its annotation or name asks for.

The forms of LangGraph Platform work unchanged: `make_graph(config: RunnableConfig)` and
`make_graph(runtime: ServerRuntime)`. A parameter that asks for nothing known keeps its default.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_origin, get_type_hints

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.store.base import BaseStore
from langgraph_sdk.runtime import ServerRuntime, _ExecutionRuntime
from pydantic import BaseModel, ValidationError

from agentic_backend.agents.code.alternatives import alternatives
from agentic_backend.agents.code.class_path import ClassPathError
from agentic_backend.agents.code.graph_config import GraphUser, configurable
from agentic_backend.agents.runtime_context import RuntimeContext
from agentic_backend.config.yaml.validation_problems import near_miss

Kind = Literal["model", "config", "runtime", "fields", "tools"]
_BY_NAME: Mapping[str, Kind] = {
    "model": "model",
    "config": "config",
    "runtime": "runtime",
    "fields": "fields",
    "tools": "tools",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A parameter and what it gets. `fields` are the catalog's, in the form of `schema` if there is one."""

    parameter: inspect.Parameter
    kind: Kind
    schema: type[BaseModel] | None = None


@dataclass(frozen=True, slots=True)
class Offer:
    """What an author's function can be given."""

    model: Callable[[], BaseChatModel]
    fields: Mapping[str, Any]
    """The catalog's fields."""
    context: RuntimeContext
    """The exchange for which the agent is built: the first of its session."""
    store: BaseStore | None
    tools: Sequence[BaseTool] = ()
    """The standard tools of the catalog's entry."""

    def of(self, wanted: Wanted) -> Any:
        """The argument. Raises ValidationError if the fields don't fit their schema."""
        match wanted.kind:
            case "model":
                return self.model()
            case "config":
                return self.config
            case "runtime":
                user = GraphUser(self.context.user_id)
                return _ExecutionRuntime(access_context="threads.create_run", user=user, store=self.store)  # type: ignore[arg-type]
            case "tools":
                return list(self.tools)
            case "fields":
                return dict(self.fields) if wanted.schema is None else wanted.schema.model_validate(self.fields)

    @property
    def config(self) -> RunnableConfig:
        """As LangGraph Platform gives it: the catalog's fields, and whom the graph is for."""
        agent_id = self.context.agent_id
        return RunnableConfig(
            configurable=configurable(self.fields, self.context),
            metadata={"assistant_id": agent_id, "graph_id": agent_id},
        )


def wanted_by(factory: Callable[..., Any]) -> Sequence[Wanted]:
    """What the parameters of `factory` get. Raises ClassPathError, which names one that asks for nothing known."""
    try:
        parameters = list(inspect.signature(factory).parameters.values())
    except (TypeError, ValueError):
        raise ClassPathError("the parameters of the function can't be read") from None
    hints = _hints(factory)
    named = [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    found = []
    for parameter in named:
        hint = hints.get(parameter.name, Any)
        wanted = _wanted(parameter, hint)
        if wanted is None and len(named) == 1 and hint is Any and parameter.default in (parameter.empty, None):
            wanted = Wanted(parameter, "model")
        if wanted is not None:
            found.append(wanted)
        elif parameter.default is parameter.empty:
            raise ClassPathError(
                f"the function needs {parameter.name!r}, which nothing is known for: it can have 'model', 'config', "
                f"'runtime', 'fields' and 'tools'{near_miss(parameter.name, _BY_NAME)}"
            )
    return found


def fields_schema(factory: Callable[..., Any]) -> type[BaseModel] | None:
    """The pydantic model that `factory` takes the catalog's fields as, if any. Raises ClassPathError."""
    return next((wanted.schema for wanted in wanted_by(factory) if wanted.schema is not None), None)


def bound(factory: Callable[..., Any], offer: Offer) -> Callable[[], Any]:
    """`factory` with its arguments. Raises ClassPathError, which names the parameter or the field that does not fit."""
    positional, named = [], {}
    for wanted in wanted_by(factory):
        try:
            argument = offer.of(wanted)
        except ValidationError as error:
            flaw = error.errors(include_input=False, include_url=False)[0]
            name = ".".join(map(str, flaw["loc"]))
            raise ClassPathError(f"wrong tuning field '{name}': {flaw['msg']}") from None
        if wanted.parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            positional.append(argument)
        else:
            named[wanted.parameter.name] = argument
    return lambda: factory(*positional, **named)


def _hints(factory: Callable[..., Any]) -> Mapping[str, Any]:
    """The annotations; none of a function whose annotations mean nothing at run time."""
    function = factory if inspect.isroutine(factory) else getattr(factory, "func", type(factory).__call__)
    try:
        return get_type_hints(inspect.unwrap(function))
    # An annotation in quotes is an author's code.
    except Exception:
        return {}


def _wanted(parameter: inspect.Parameter, hint: Any) -> Wanted | None:
    """By the annotation; by the name if the annotation says nothing of these."""
    for one in alternatives(hint):
        if one is RunnableConfig:
            return Wanted(parameter, "config")
        if one is ServerRuntime or get_origin(one) is ServerRuntime:
            return Wanted(parameter, "runtime")
        if isinstance(one, type) and issubclass(one, BaseChatModel):
            return Wanted(parameter, "model")
        if isinstance(one, type) and issubclass(one, BaseModel):
            return Wanted(parameter, "fields", one)
    kind = _BY_NAME.get(parameter.name)
    # A list is plain for all but the tools, which are one.
    is_plain = _is_plain(hint) and not (kind == "tools" and hint is list)
    return Wanted(parameter, kind) if kind is not None and not is_plain else None


def _is_plain(hint: Any) -> bool:
    """Whether an annotation can't mean any of these, so that the name counts for nothing: `model: str`."""
    return hint in (str, int, float, bool, bytes, list, tuple, set)
