"""Middleware by name, made with the arguments of a catalog entry: LangChain's, or an author's at `module:name`."""

import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from difflib import get_close_matches
from functools import partial
from types import UnionType
from typing import Any, Union, get_args, get_origin, is_typeddict

from langchain.agents import middleware
from langchain.agents.middleware import AgentMiddleware, LLMToolEmulator, PIIMiddleware
from langchain_core.language_models import BaseChatModel, ModelProfile
from pydantic import ConfigDict, TypeAdapter, ValidationError

from agentic_backend.agents.catalog.entry_parts import is_code_name
from agentic_backend.agents.code.class_path import ClassPathError, resolve
from agentic_backend.config.yaml.located_yaml import KeyPath
from agentic_backend.config.yaml.validation_problems import near_miss
from agentic_backend.disclosure.exception_detail import text_of
from agentic_backend.disclosure.known_secrets import secrets_of
from agentic_backend.offline.model import OfflineChatModel
from agentic_backend.text.pii_detectors import PII_TYPES, PiiType, find_pii

Middleware = AgentMiddleware[Any, Any, Any]
Target = type[Middleware] | Middleware

_LONGEST_REASON = 300
_INSTEAD = {
    "AgentMiddleware": "is what middleware derives from",
    "HumanInTheLoopMiddleware": "is not needed: the entry's 'require_approval' asks for approval",
    "ShellToolMiddleware": "runs commands on the server; an author's class, as 'module:name', can derive from it",
    "FilesystemFileSearchMiddleware": "reads files of the server; an author's class, as 'module:name', can do so",
}
SHIPPED_MIDDLEWARE: Mapping[str, type[Middleware]] = {
    name: found
    for name in middleware.__all__
    if isinstance(found := getattr(middleware, name), type) and issubclass(found, AgentMiddleware)
    if name not in _INSTEAD
}
"""LangChain's, by the names of their classes, without what other keys of an entry do and what acts on the machine."""


def middleware_at(name: str) -> Target:
    """The class of this name, or what is at `module:name`. Raises ClassPathError."""
    if not is_code_name(name):
        if name in SHIPPED_MIDDLEWARE:
            return SHIPPED_MIDDLEWARE[name]
        if name in _INSTEAD:
            raise ClassPathError(f"{name} {_INSTEAD[name]}")
        raise ClassPathError(f"there is no middleware {name!r}{_hint(name)}")
    found = resolve(name)
    if isinstance(found, AgentMiddleware) or (isinstance(found, type) and issubclass(found, AgentMiddleware)):
        return found
    raise ClassPathError(f"expected a class derived from AgentMiddleware or an instance, found {type(found).__name__}")


def _hint(name: str) -> str:
    full = f"{name}Middleware"
    if full in SHIPPED_MIDDLEWARE:
        return f"; did you mean {full!r}?"
    close = get_close_matches(name, SHIPPED_MIDDLEWARE, n=1)
    return (
        f"; did you mean {close[0]!r}?" if close else f"; there is {', '.join(SHIPPED_MIDDLEWARE)}, and 'module:name'"
    )


def models_in(target: Target, args: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """The names of models among the arguments, each with its place in them."""
    for name in _model_parameters(target):
        value = args.get(name)
        if isinstance(value, str):
            yield (name,), value
        elif isinstance(value, list):
            yield from (((name, index), one) for index, one in enumerate(value) if isinstance(one, str))


def wrong_arguments(target: Target, args: Mapping[str, Any]) -> list[tuple[KeyPath, str]]:
    """What keeps the middleware from being made with `args`: place in them, and reason."""
    if isinstance(target, AgentMiddleware):
        return [((name,), "what stands at this 'module:name' is made already and takes no arguments") for name in args]
    taken = _parameters(target)
    found = [*_unknown(target, args, taken), *_missing(args, taken)]
    if target is LLMToolEmulator and args.get("model") is None:
        # LangChain would ask a provider that the settings may not name.
        found.append(((), "needs the argument 'model'"))
    found = found or [mistake for name, value in args.items() for mistake in _misfit(target, name, value)]
    if found:
        return found
    try:
        made(target, args, lambda name: _stand_in())
    # A class may be an author's.
    except Exception as error:
        reason = text_of(error, secrets_of()).partition("\n")[0][:_LONGEST_REASON]
        return [((), f"can't be made: {reason or type(error).__name__}")]
    return []


def made(target: Target, args: Mapping[str, Any], model: Callable[[str], BaseChatModel]) -> Middleware:
    """The middleware with its arguments; `model` returns the model of a name."""
    if isinstance(target, AgentMiddleware):
        return target
    models = _model_parameters(target)
    parameters = _parameters(target)
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for name, value in args.items():
        value = _models(value, model) if name in models else _converted(target, name, value)
        if name in parameters and parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            positional += value
        else:
            named[name] = value
    if target is PIIMiddleware and named.get("pii_type") in PII_TYPES and named.get("detector") is None:
        named["detector"] = partial(_found, named["pii_type"])
    if not positional:
        return target(**named)
    # What stands before them in the signature is positional too.
    before = [name for name, one in parameters.items() if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    return target(*(named.pop(name) for name in before if name in named), *positional, **named)


def _found(type_: PiiType, text: str) -> list[dict[str, Any]]:
    """What PIIMiddleware takes from a detector. Its own ones take time that is quadratic in the length of a text."""
    found = find_pii(text, (type_,))
    return [{"type": type_, "value": one.value, "start": one.start, "end": one.end} for one in found]


def _parameters(target: type[Middleware]) -> dict[str, inspect.Parameter]:
    """Those of the constructor, without `**options` of LangChain's own, which are for what it has renamed."""
    parameters = inspect.signature(target).parameters
    is_shipped = target in SHIPPED_MIDDLEWARE.values()
    return {name: one for name, one in parameters.items() if not (is_shipped and one.kind is one.VAR_KEYWORD)}


def _unknown(
    target: type[Middleware], args: Mapping[str, Any], taken: Mapping[str, inspect.Parameter]
) -> Iterator[tuple[KeyPath, str]]:
    if any(one.kind is one.VAR_KEYWORD for one in taken.values()):
        return
    for name in args:
        if name not in taken:
            hint = near_miss(name, taken) or f"; it takes {', '.join(taken) or 'none'}"
            yield (name,), f"{target.__name__} takes no argument {name!r}{hint}"


def _missing(args: Mapping[str, Any], taken: Mapping[str, inspect.Parameter]) -> Iterator[tuple[KeyPath, str]]:
    for name, one in taken.items():
        is_optional = one.default is not one.empty or one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        if name not in args and not is_optional:
            yield (), f"needs the argument {name!r}"


def _misfit(target: type[Middleware], name: str, value: Any) -> Iterator[tuple[KeyPath, str]]:
    if name in _model_parameters(target):
        is_list = inspect.Parameter.VAR_POSITIONAL is _parameters(target)[name].kind
        names = value if isinstance(value, list) and is_list else [value]
        if (is_list and not isinstance(value, list)) or not all(isinstance(one, str) for one in names):
            yield (name,), f"expected {'a list of names of models' if is_list else 'the name of a model'}"
        return
    if _adapter(_annotation(target, name)) is None and not _fits_function(
        str(_parameters(target)[name].annotation), value
    ):
        yield (name,), "this takes a function, which only code can give: name a middleware of yours as 'module:name'"
        return
    try:
        _converted(target, name, value)
    except ValidationError as error:
        told = dict.fromkeys(problem["msg"] for problem in error.errors(include_url=False, include_input=False))
        yield (name,), " or ".join(told)[:_LONGEST_REASON]


def _fits_function(annotation: str, value: Any) -> bool:
    """False for a value where LangChain wants a function, in an annotation that can't be evaluated."""
    if value is None or not re.search("Callable|OnError", annotation):
        return True
    return isinstance(value, str) and "str" in re.split(r"\s*\|\s*", annotation)


def _converted(target: type[Middleware], name: str, value: Any) -> Any:
    """`value` as the constructor's annotation wants it, such as a list as a tuple. Raises ValidationError."""
    annotation = _annotation(target, name)
    adapter = _adapter(annotation)
    return value if adapter is None else adapter.validate_python(value)


def _adapter(annotation: Any) -> TypeAdapter[Any] | None:
    """None if there is no annotation, or none that pydantic can check."""
    if annotation is None:
        return None
    try:
        return TypeAdapter(_checkable(annotation), config=ConfigDict(arbitrary_types_allowed=True))
    # Pydantic raises many kinds of errors here, and so may an author's type.
    except Exception:
        return None


def _checkable(annotation: Any) -> Any:
    """`annotation` with mappings for `typing.TypedDict`s, which pydantic refuses before Python 3.12."""
    if is_typeddict(annotation):
        return dict[str, Any]
    origin, args = get_origin(annotation), get_args(annotation)
    checkable = tuple(map(_checkable, args)) if origin in (Union, UnionType, list, tuple) else args
    if checkable == args:
        return annotation
    # As `Union[…]`, since not all of its members know `|`.
    return Union[checkable] if origin in (Union, UnionType) else origin[checkable]  # noqa: UP007


def _annotation(target: type[Middleware], name: str) -> Any:
    """None if there is none, or if it can be read only by a type checker."""
    parameter = _parameters(target).get(name)
    if parameter is None or parameter.annotation is parameter.empty:
        return None
    if not isinstance(parameter.annotation, str):
        return parameter.annotation
    try:
        # As `typing.get_type_hints` does, but one by one.
        return eval(parameter.annotation, vars(sys.modules[target.__module__]))
    except Exception:
        return None


def _model_parameters(target: Target) -> Collection[str]:
    if isinstance(target, AgentMiddleware):
        return ()
    return [name for name, one in _parameters(target).items() if "BaseChatModel" in str(one.annotation)]


def _models(value: Any, model: Callable[[str], BaseChatModel]) -> Any:
    return [model(one) for one in value] if isinstance(value, list) else None if value is None else model(value)


def _stand_in() -> BaseChatModel:
    """A model for a trial, of which all that middleware asks is known."""
    return OfflineChatModel(profile=ModelProfile(max_input_tokens=1_000_000, image_inputs=True))
