"""The commands that an application declares, checked: async methods, whose signatures say what they are given."""

import argparse
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from agentic_backend.agents.code.class_path import ClassPathError
from agentic_backend.application import Command, User
from agentic_backend.hosting.declarations import first_broken, listed
from agentic_backend.hosting.declared_calls import is_async_method, line_of

_MOST = 50
_TYPES = (str, int, float, Path)
SERVER_COMMANDS = frozenset(
    ("serve", "chat", "validate", "schema", "new-agent", "new-application", "eval", "migrate", "explain", "redelete")
)
"""The names of the server's own commands."""
_SERVER_OPTIONS = ("config", "data", "store", "catalog", "log_level")
"""The server's options, which each command has."""


@dataclass(frozen=True, slots=True)
class DeclaredCommand:
    """A command whose declaration is sound."""

    name: str
    """As it is typed."""
    description: str
    handler: Any
    parameters: Sequence[inspect.Parameter]
    types: dict[str, type]

    def add_to(self, parser: argparse.ArgumentParser, developer: str | None) -> None:
        """Have the parser read what the handler is given. `developer` is the user where nobody is named; None: one has
        to be.
        """
        for parameter in self.parameters:
            name, type_ = parameter.name, self.types[parameter.name]
            is_needed, default = parameter.default is parameter.empty, parameter.default
            more: dict[str, Any]
            if type_ is User:
                more = {"required": True} if developer is None else {"default": developer}
                parser.add_argument("--user", metavar="ID", type=_user, help="in whose name, by id", **more)
            elif parameter.kind is not parameter.KEYWORD_ONLY:
                more = {} if is_needed else {"nargs": "?", "default": default}
                parser.add_argument(name, metavar=name.upper(), type=type_, **more)
            elif type_ is bool:
                parser.add_argument(_option(name), dest=name, action="store_true")
            else:
                more = {"required": True} if is_needed else {"default": default}
                parser.add_argument(_option(name), dest=name, type=type_, **more)


def _user(id: str) -> User:
    return User(id, id)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def declared_commands(commands: object) -> list[DeclaredCommand]:
    """The commands that `Application.commands` has answered. Raises ClassPathError, and what reading them raises."""
    declared = [_declared(each) for each in listed("'commands' has to answer", commands, Command, _MOST)]
    names = [each.name for each in declared]
    for name in names:
        if name in SERVER_COMMANDS:
            raise ClassPathError(f"the command {name!r} is the server's own")
        if name.startswith("-"):
            raise ClassPathError(f"the command {name!r} would be an option: its handler begins with '_'")
        if names.count(name) > 1:
            raise ClassPathError(f"two commands are {name!r}")
    return declared


def _declared(command: Command) -> DeclaredCommand:
    handler = command.handler
    if not is_async_method(handler):
        raise ClassPathError("the handler of a command is no async method")
    parameters = list(inspect.signature(handler).parameters.values())
    hints = get_type_hints(handler)
    types: dict[str, type] = {}
    for parameter in parameters:
        found = _type_of(hints.get(parameter.name))
        is_option = parameter.kind is parameter.KEYWORD_ONLY
        is_flag = found is bool and is_option and parameter.default is False
        is_user = found is User and is_option and parameter.name == "user" and parameter.default is parameter.empty
        is_of_types = is_flag or is_user or found in _TYPES
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or not is_of_types:
            raise ClassPathError(
                f"the command {handler.__name__!r}{line_of(handler)}: {parameter.name!r} has to be a str, an int, a "
                "float or a Path, or behind '*' a bool that is False, or 'user: User'"
            )
        rules = {
            "is not given by name": parameter.kind is not parameter.POSITIONAL_ONLY,
            "begins with '_', or is 'help'": not parameter.name.startswith("_") and parameter.name != "help",
            "is an option of the server's": not is_option or parameter.name not in _SERVER_OPTIONS,
            "has a default of another type": parameter.default in (parameter.empty, None)
            or isinstance(parameter.default, found),
        }
        if (rule := first_broken(rules)) is not None:
            raise ClassPathError(f"the command {handler.__name__!r}{line_of(handler)}: {parameter.name!r} {rule}")
        types[parameter.name] = found
    description = inspect.getdoc(handler) or ""
    return DeclaredCommand(handler.__name__.replace("_", "-"), description, handler, parameters, types)


def _type_of(annotation: Any) -> Any:
    """The type; of a type or None, that type."""
    if get_origin(annotation) in (Union, UnionType):
        members = [member for member in get_args(annotation) if member is not type(None)]
        return members[0] if len(members) == 1 else None
    return annotation
