"""Graph contexts: LangGraph's `context` for a graph that declares a `context_schema`.

Each field of the schema has one source. The server owns what identifies the run (`user_id` and the like) and the
RuntimeContext itself; next the catalog's `tuning.fields` count; the client's `runtime_context` fills only what is left.
So no client can replace a value of the operator, or claim to be somebody else.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import lru_cache
from typing import Annotated, Any, NotRequired, Required, Self, get_args, get_origin, get_type_hints

from pydantic import AliasChoices, BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo

from agentic_backend.agents.code.alternatives import alternatives
from agentic_backend.agents.runtime_context import RuntimeContext
from agentic_backend.errors import AgentUnavailable, BadFrame

log = logging.getLogger(__name__)

_IDENTITY = ("user_id", "session_id", "thread_id", "exchange_id", "agent_id")
"""The fields that the server fills."""
_OF_RUN = {field.name for field in fields(RuntimeContext)}
"""The fields that a subclass of RuntimeContext has of it."""
_LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class ContextField:
    """A field of a schema. A value may come under any of its `keys`, and is passed on under the first."""

    name: str
    keys: tuple[str, ...]
    """Aliases may replace the name."""
    is_required: bool
    is_runtime_context: bool
    adapter: TypeAdapter[Any] | None
    """The check of its type; None for a type that pydantic does not know."""

    @classmethod
    def of(cls, name: str, annotation: Any, *, is_required: bool, keys: tuple[str, ...] = ()) -> Self:
        members = alternatives(annotation)
        is_context = any(isinstance(member, type) and issubclass(member, RuntimeContext) for member in members)
        return cls(name, keys or (name,), is_required, is_context, _adapter(annotation))

    @property
    def identity(self) -> str | None:
        """The name of what the server fills the field with, whichever of its names has it; None for another field."""
        return next((name for name in (self.name, *self.keys) if name in _IDENTITY), None)

    def checked(self, value: Any) -> Any:
        """`value` in the field's type. Raises ValidationError."""
        return value if self.adapter is None else self.adapter.validate_python(value)


class _Filled(dict[str, Any]):
    """A TypedDict's values. It is true also if it is empty: LangGraph replaces a false context by None."""

    def __bool__(self) -> bool:
        return True


def is_context_schema(schema: object) -> bool:
    """Whether `schema` declares fields to fill. Any other graph gets the RuntimeContext."""
    if schema is RuntimeContext or not isinstance(schema, type):
        return False
    return issubclass(schema, BaseModel) or is_dataclass(schema) or _is_typed_dict(schema)


def graph_context(schema: Any, configured: Mapping[str, Any], context: RuntimeContext) -> Any:
    """The context of a run: an instance of `schema`, or `context` itself if the schema declares no fields.

    `configured` are the catalog's fields. Raises BadFrame for a field that the client lacks or gives wrongly, and
    AgentUnavailable for one that only the operator or the author can mend.
    """
    if not is_context_schema(schema):
        return context
    values: dict[str, Any] = {}
    # The names of the fields that the client filled.
    of_client: set[str] = set()
    for field in _fields(schema):
        found = _source(schema, field, configured, context)
        if found is None:
            if field.is_required:
                raise BadFrame(f"runtime_context.{field.keys[0]}: the agent needs this field")
            continue
        value, is_of_client = found
        if is_of_client:
            of_client |= {field.name, *field.keys}
        try:
            # A pydantic model checks its fields itself, all together.
            values[field.keys[0]] = value if issubclass(schema, BaseModel) else field.checked(value)
        except ValidationError as error:
            raise _wrong(field.keys[0], error, is_of_client=is_of_client) from None
    return _made(schema, values, of_client)


def wrong_fields(schema: Any, configured: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The catalog's fields that don't fit `schema`, whatever a client says: name and reason."""
    for field in _fields(schema) if is_context_schema(schema) else ():
        name = next((key for key in field.keys if key in configured), None)
        if name is not None and field.identity is None and not field.is_runtime_context:
            try:
                field.checked(configured[name])
            except ValidationError as error:
                yield name, _reason(error)


def field_names(schema: Any) -> Sequence[str]:
    """The names under which the catalog can give values to `schema`; empty if it declares no fields."""
    return [key for field in _fields(schema) for key in field.keys] if is_context_schema(schema) else []


def _source(
    schema: type, field: ContextField, configured: Mapping[str, Any], context: RuntimeContext
) -> tuple[Any, bool] | None:
    """The field's value, and whether the client gave it; None if nobody did."""
    if field.is_runtime_context:
        return context, False
    if issubclass(schema, RuntimeContext) and field.name in _OF_RUN:
        return getattr(context, field.name), False
    if (name := field.identity) is not None:
        return context.thread_id if name == "session_id" else getattr(context, name), False
    for values, is_of_client in ((configured, False), (context.client, True)):
        for key in field.keys:
            if key in values:
                return values[key], is_of_client
    return None


def _made(schema: Any, values: dict[str, Any], of_client: Collection[str]) -> Any:
    if _is_typed_dict(schema):
        return _Filled(values)
    try:
        return schema.model_validate(values) if issubclass(schema, BaseModel) else schema(**values)
    except ValidationError as error:
        # A rule over several fields has no place.
        name = str((error.errors(include_input=False)[0]["loc"] or ("",))[0])
        raise _wrong(name, error, is_of_client=name in of_client if name else bool(of_client)) from None
    except Exception as error:
        # An author's class may raise anything; its text may quote a value of the client.
        told = {"schema": schema.__name__, "error": type(error).__name__}
        log.error("graph context not made", extra=told)
        if isinstance(error, ValueError) and of_client:
            raise BadFrame("runtime_context: the agent does not take these values") from None
        raise AgentUnavailable("The agent's context could not be made.") from error


def _wrong(name: str, error: ValidationError, *, is_of_client: bool) -> BadFrame | AgentUnavailable:
    if is_of_client:
        return BadFrame(f"runtime_context{f'.{name}' if name else ''}: {_reason(error)}")
    if not name:
        return AgentUnavailable("The agent's context does not fit its schema.")
    return AgentUnavailable(f"The field '{name}' of the agent's context does not fit its schema.")


def _reason(error: ValidationError) -> str:
    return error.errors(include_url=False, include_input=False)[0]["msg"][:_LONGEST_REASON]


@lru_cache(maxsize=256)
def _fields(schema: Any) -> Sequence[ContextField]:
    if issubclass(schema, BaseModel):
        return [
            ContextField.of(
                name,
                Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation,
                is_required=info.is_required(),
                keys=_keys(schema, name, info),
            )
            for name, info in schema.model_fields.items()
        ]
    try:
        hints = get_type_hints(schema, include_extras=True)
    except (NameError, TypeError) as error:
        raise AgentUnavailable("The types of the agent's context schema can't be found.") from error
    if _is_typed_dict(schema):
        required = schema.__required_keys__
        return [ContextField.of(name, _bare(hint), is_required=name in required) for name, hint in hints.items()]
    return [
        ContextField.of(
            field.name,
            hints[field.name],
            is_required=field.default is MISSING and field.default_factory is MISSING,
        )
        for field in fields(schema)
        if field.init
    ]


def _keys(schema: type[BaseModel], name: str, info: FieldInfo) -> tuple[str, ...]:
    """The names that the model takes the field by. Raises AgentUnavailable if it takes it only out of another value."""
    alias = info.validation_alias
    aliases = [one for one in (alias.choices if isinstance(alias, AliasChoices) else [alias]) if isinstance(one, str)]
    by_name = schema.model_config.get("populate_by_name") or schema.model_config.get("validate_by_name")
    if by_name:
        return (*aliases, name)
    if alias is not None and not aliases:
        raise AgentUnavailable(f"The field '{name}' of the agent's context has only an AliasPath; it needs a name.")
    return tuple(aliases) or (name,)


def _is_typed_dict(schema: type) -> bool:
    # That of typing_extensions counts too.
    return issubclass(schema, dict) and hasattr(schema, "__required_keys__")


def _bare(hint: Any) -> Any:
    """A TypedDict's annotation without its qualifiers."""
    while get_origin(hint) in (Required, NotRequired):
        [hint] = get_args(hint)
    return hint


def _adapter(annotation: Any) -> TypeAdapter[Any] | None:
    """The check of a type; None for one that pydantic does not know."""
    for config in (ConfigDict(arbitrary_types_allowed=True), None):
        try:
            return TypeAdapter(annotation, config=config)
        except PydanticUserError:
            # A class with a configuration of its own takes no other.
            continue
    return None
