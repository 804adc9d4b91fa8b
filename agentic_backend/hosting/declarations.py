"""What all checks of an application's declarations share."""

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

from agentic_backend.agents.code.class_path import ClassPathError
from agentic_backend.text.invisible_characters import shown

T = TypeVar("T")

_LONGEST_TITLE = 100
_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
NAME_RULE = "a name has lower-case letters, digits and '-', at most 32"
ROLES_RULE = "the roles have to be a set of texts"


def listed(needed: str, found: object, kind: type[T], most: int) -> Sequence[T]:
    """The values of this very class that an application declares; `needed` begins the sentence that refuses others.

    Raises ClassPathError.
    """
    if not isinstance(found, list | tuple) or len(found) > most or not all(type(each) is kind for each in found):
        raise ClassPathError(f"{needed} a list of at most {most} of class {kind.__name__}")
    return found


def is_name(value: object) -> bool:
    """Whether the value keeps `NAME_RULE`."""
    return type(value) is str and _NAME.fullmatch(value) is not None


def are_roles(value: object) -> bool:
    """Whether the value keeps `ROLES_RULE`."""
    return (type(value) is frozenset or type(value) is set) and all(type(role) is str for role in value)


def is_title(value: object) -> bool:
    """Whether the value is a line that people can be shown: all of it is seen, and it begins with a word."""
    if type(value) is not str or not 0 < len(value) <= _LONGEST_TITLE:
        return False
    return value[0].isalnum() and shown(value) == value


def first_broken(rules: Mapping[str, bool]) -> str | None:
    """The first rule that does not hold."""
    return next((rule for rule, holds in rules.items() if not holds), None)
