"""The calls that an application declares, checked, and made into operations of the server."""

import inspect
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType, FunctionType, MethodType, UnionType
from typing import Any, Literal, NoReturn, TypeGuard, Union, get_args, get_origin, get_type_hints

from agentic_backend import errors
from agentic_backend.agents.code.class_path import ClassPathError
from agentic_backend.application import Call, Preview
from agentic_backend.auth.user import User
from agentic_backend.disclosure.exception_detail import shown_place
from agentic_backend.errors import AgenticError, ApplicationUnavailable, ApprovalRequired
from agentic_backend.experts.documentation.document_index import SHIPPED_LINKS
from agentic_backend.hosting.declarations import ROLES_RULE, are_roles, first_broken, is_title
from agentic_backend.hosting.event_streams import ERROR
from agentic_backend.protocol.frames import Frame
from agentic_backend.protocol.parts import Value
from agentic_backend.transports.contract.doors import DOORS
from agentic_backend.transports.rest.operation import APPROVAL, Operation, Streamed
from agentic_backend.transports.rest.query_string import Query
from agentic_backend.transports.rest.upload import Upload

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_PATH = re.compile(r"(/([a-z0-9][a-z0-9_-]*|\{[a-z][a-z0-9_]*\}))+")
_EVENT = re.compile(r"[a-z][a-z0-9_]{0,63}")
_PERMISSION = re.compile(r"[\w.-]+(:[\w.-]+){0,7}")
_PARTS = re.compile(r"\{([a-z0-9_]+)\}")
_LONGEST_PATH = 200
_MOST_CALLS, _MOST_PERMISSIONS = 200, 100
_LONGEST_TIMEOUT_S = 600
# Of an answer with a body.
_STATUSES = (200, 201, 202, 203)

_TAKEN = (
    *("/agentic", "/static", SHIPPED_LINKS.rpartition("/")[0]),
    *(begin for door in DOORS if not door.own for begin in door.paths),
)
"""What paths of the server's own begin with."""
_TAKEN_WHOLE = tuple(path for door in DOORS for path in door.own)

OPENAPI = "/openapi.json"
"""Where the server itself has the document of an application's calls, whatever paths these have."""

FILE = "file"
"""The field of a multipart body that has the file of a call."""

KNOWN_ERRORS = tuple(
    each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, AgenticError)
)
"""The server's own classes: a subclass of one may be anything."""


@dataclass(frozen=True, slots=True)
class DeclaredCall:
    """A call whose declaration is sound. `operation` has no border yet."""

    operation: Operation
    roles: frozenset[str]
    timeout_s: float
    permissions: Sequence[str] = ()
    events: Mapping[type[Value], str] = field(default_factory=dict)
    """The names of the events that it streams, by their classes."""


def prefix_of(application_id: str) -> str:
    """What the paths of the application's calls begin with."""
    return f"/apps/{application_id}"


def declared_permissions(permissions: object) -> Mapping[str, str]:
    """What `Application.permissions` has, with what each is for. Raises ClassPathError."""
    if not isinstance(permissions, Mapping) or len(permissions) > _MOST_PERMISSIONS:
        raise ClassPathError(f"'permissions' has to be at most {_MOST_PERMISSIONS} texts by permission")
    for name, meaning in permissions.items():
        if type(name) is not str or not _PERMISSION.fullmatch(name):
            raise ClassPathError(f"the permission {str(name)[:100]!r} is none like 'notes:write:self'")
        if not is_title(meaning):
            raise ClassPathError(f"the permission {name!r} needs a text that says what it is for")
    return dict(permissions)


def declared_calls(application_id: str, calls: object, permissions: Collection[str] = ()) -> Sequence[DeclaredCall]:
    """The calls that `Application.calls` has answered, which need some of the application's `permissions`.

    Raises ClassPathError, and whatever reading them raises.
    """
    if not isinstance(calls, list | tuple) or len(calls) > _MOST_CALLS:
        raise ClassPathError(f"'calls' has to answer a list of at most {_MOST_CALLS} calls")
    declared = [_declared(application_id, call, permissions) for call in calls]
    names, shapes = set[str](), set[tuple[str, str]]()
    for call, made in zip(calls, declared, strict=True):
        shape = shape_of(made.operation)
        if made.operation.id in names:
            _refuse(call, "another call has a handler of this name")
        if shape in shapes:
            _refuse(call, "another call has this method and path")
        names.add(made.operation.id)
        shapes.add(shape)
    return declared


def previews_in(calls: Sequence[DeclaredCall]) -> Collection[str]:
    """The names of those that may tell what a link opens in a panel."""
    operations = [call.operation for call in calls]
    return {
        each.id
        for each in operations
        if each.method == "POST" and "body" in each.types and not each.path_parameters
        if _is_subclass(each.answer_type, Preview)
    }


def shape_of(operation: Operation) -> tuple[str, str]:
    """What no two operations may share: the method, and the path without the names of its parts."""
    return operation.method, _PARTS.sub("{}", operation.path)


def _declared(application_id: str, call: object, permissions: Collection[str]) -> DeclaredCall:
    if not isinstance(call, Call):
        raise ClassPathError(f"'calls' has to answer calls, found a value of type {type(call).__name__}")
    if not (is_async_method(call.handler) or is_async_generator(call.handler)):
        raise ClassPathError("the handler of a call is no async method")
    rules = {
        f"the method has to be one of {', '.join(_METHODS)}": type(call.method) is str and call.method in _METHODS,
        "the path has to be like '/notes' or '/notes/{note}'": _is_path(call.path),
        f"the status has to be one of {', '.join(map(str, _STATUSES))}": type(call.status) is int
        and call.status in _STATUSES,
        f"timeout_s has to be more than 0 and at most {_LONGEST_TIMEOUT_S}": is_number(call.timeout_s)
        and 0 < call.timeout_s <= _LONGEST_TIMEOUT_S,
        ROLES_RULE: are_roles(call.roles),
        "what it needs has to be a list of the application's 'permissions'": isinstance(call.permissions, list | tuple)
        and all(type(each) is str and each in permissions for each in call.permissions),
        "the errors have to be classes of the server": all(_is_known(error) for error in call.errors),
        "'at_root' has to be true or false": type(call.at_root) is bool,
        "the path is the server's own": not call.at_root or _is_free(call.path),
    }
    _keep(call, rules)
    try:
        operation = Operation(
            call.method,
            call.path if call.at_root else prefix_of(application_id) + call.path,
            call.handler,
            status=call.status,
            answer=_streamed(call),
            upload=FILE if "upload" in get_type_hints(call.handler) else None,
            headers=(APPROVAL,) if ApprovalRequired in call.errors else (),
            errors=(*call.errors, ApplicationUnavailable),
        )
    except TypeError as error:
        _refuse(call, str(error))
    _check_signature(call, operation)
    return DeclaredCall(
        operation, frozenset(call.roles), float(call.timeout_s), tuple(call.permissions), _events_of(call, operation)
    )


def _streamed(call: Call) -> Streamed | None:
    """The answer of a handler that is an async generator."""
    if not is_async_generator(call.handler):
        return None
    returned = get_type_hints(call.handler, include_extras=True).get("return")
    if get_origin(returned) not in (AsyncIterator, AsyncGenerator) or not get_args(returned):
        _refuse(call, "the handler yields, so its return type has to be AsyncIterator of the events")
    return Streamed("text/event-stream", get_args(returned)[0])


def _events_of(call: Call, operation: Operation) -> Mapping[type[Value], str]:
    if operation.answer is None:
        return {}
    content = operation.answer.content
    kinds = get_args(content) if get_origin(content) in (Union, UnionType) else (content,)
    names = {kind: _event_name(kind) for kind in kinds if _is_subclass(kind, Value)}
    rules = {
        'its events have to be subclasses of Value, each with a field \'type\' as `type: Literal["step"] = "step"`': (
            len(names) == len(kinds) and all(names.values())
        ),
        "two of its events have the same type": len({*names.values()}) == len(names),
        f"'{ERROR}' is the server's own event": ERROR not in names.values(),
    }
    _keep(call, rules)
    return {kind: name for kind, name in names.items() if name is not None}


def _event_name(kind: type[Value]) -> str | None:
    """The one that the class gives to its events; None if that is none."""
    named = kind.model_fields.get("type")
    options = get_args(named.annotation) if named is not None and get_origin(named.annotation) is Literal else ()
    is_one = len(options) == 1 and type(options[0]) is str and _EVENT.fullmatch(options[0]) is not None
    return options[0] if is_one and named is not None and named.default == options[0] else None


def _check_signature(call: Call, operation: Operation) -> None:
    types, parts = operation.types, _PARTS.findall(call.path)
    for parameter in inspect.signature(call.handler).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            _refuse(call, f"the handler's parameter {parameter.name!r} is not given by name")
        if parameter.name not in types:
            _refuse(call, f"the handler's parameter {parameter.name!r} has no type")
    rules = {
        "the handler has no parameter 'user: User': no call forgets who calls": types.get("user") is User,
        "the handler has a parameter 'request'; it is given 'body' and 'query' instead": "request" not in types,
        "the handler's 'body' has to be a subclass of Frame": _is_subclass(types.get("body", Frame), Frame),
        "the handler's 'upload' has to be an Upload": types.get("upload", Upload) is Upload,
        "the handler has a body and an upload; a request has one of them": not {"body", "upload"} <= {*types},
        "the handler's 'query' has to be a subclass of Query": _is_subclass(types.get("query", Query), Query),
        "the path and the handler differ in its parts": sorted(parts) == sorted(operation.path_parameters),
        "the parts of the path are texts, 'str'": all(types.get(name) is str for name in parts),
        "the handler has to answer with a subclass of Value, or None": operation.answer is not None
        or operation.answer_type is None
        or _is_subclass(operation.answer_type, Value),
    }
    _keep(call, rules)


def _is_subclass(found: Any, base: type) -> bool:
    return isinstance(found, type) and issubclass(found, base)


def _is_known(error: object) -> bool:
    return any(error is known for known in KNOWN_ERRORS)


def _is_path(path: object) -> bool:
    return type(path) is str and len(path) <= _LONGEST_PATH and _PATH.fullmatch(path) is not None


def _is_free(path: str) -> bool:
    """Whether no path of the server's own can be this one, or begin as it does."""
    parts = path.split("/")
    return not any(
        all(one == other or one.startswith("{") for one, other in zip(parts, taken.split("/"), strict=False))
        for taken in (*_TAKEN, *(whole for whole in _TAKEN_WHOLE if whole.count("/") == path.count("/")))
    )


def _keep(call: Call, rules: Mapping[str, bool]) -> None:
    """Raises ClassPathError with the first rule that does not hold."""
    if (rule := first_broken(rules)) is not None:
        _refuse(call, rule)


def _refuse(call: Call, why: str) -> NoReturn:
    """Raises ClassPathError with the handler's line."""
    raise ClassPathError(f"the call {call.method!s} {call.path!s}{line_of(call.handler)}: {why}"[:500])


# What is kept of a declaration is of Python's own types: others may answer differently each time they are asked.


def is_number(value: object) -> TypeGuard[float]:
    return type(value) is int or type(value) is float


def is_async_method(value: object) -> bool:
    return isinstance(value, FunctionType | MethodType) and inspect.iscoroutinefunction(value)


def is_async_generator(value: object) -> bool:
    return isinstance(value, FunctionType | MethodType) and inspect.isasyncgenfunction(value)


def line_of(method: Callable[..., Any]) -> str:
    """ " at" and the line of an author's method; empty if it has none."""
    code = getattr(inspect.unwrap(method), "__code__", None)
    if not isinstance(code, CodeType):
        return ""
    return f" at {shown_place(code.co_filename, code.co_firstlineno, code.co_name, full_path=True)}"
