"""The kinds of scopes that settings can be made for."""

from typing import Annotated, Literal

from pydantic import StringConstraints

ScopeKind = Literal["organisation", "class", "task", "assignment"]
ScopeName = Annotated[str, StringConstraints(pattern=r"^(organisation|class|task|assignment)$")]
"""A ScopeKind as the key of an object: the pattern makes the error text."""
