"""Alternatives: the types that an annotation says its value may have."""

from collections.abc import Sequence
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin


def alternatives(hint: Any) -> Sequence[Any]:
    """The members of a union, without metadata; of any other annotation, itself: `list[X]` does not ask for X."""
    origin = get_origin(hint)
    if origin is Annotated:
        return alternatives(get_args(hint)[0])
    if origin in (Union, UnionType):
        return [one for member in get_args(hint) for one in alternatives(member)]
    return [hint]
