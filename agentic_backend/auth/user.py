"""Users, their tokens, and the Authenticator protocol that finds the user of a token."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class User:
    """An authenticated person."""

    id: str
    name: str
    """The name that people see."""
    roles: frozenset[str] = frozenset()
    expires_at: float | None = None
    """When the token expires, in Unix seconds; None: never."""
    email: str | None = None
    groups: frozenset[str] = frozenset()
    """The groups that the token names."""
    scope: Mapping[str, str] = field(default_factory=dict)
    """The scopes that the token names, such as an organisation or a class, by their kind."""
    scope_choices: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Scopes by kind of which the token names several: the user may choose one for a session."""
    is_admin: bool = False
    """Whether the person has the role that the settings give to admins."""
    is_developer: bool = False
    """Whether the server runs in developer mode, where everybody is an author."""

    @property
    def sees_details(self) -> bool:
        """Whether errors tell this person the exception behind them."""
        return self.is_developer or self.is_admin


@dataclass(frozen=True, slots=True)
class Tokens:
    access_token: str = field(repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    expires_at: float | None = None
    """When the access token expires, in Unix seconds; None: never, or not known."""


class Authenticator(Protocol):
    @property
    def anonymous(self) -> User | None:
        """The user of clients without a token; None if they need one."""
        ...

    @property
    def ready(self) -> bool:
        """Whether tokens can be checked."""
        ...

    async def authenticate(self, access_token: str) -> User:
        """The user of the token.

        Raises Unauthenticated, TokenExpired, Forbidden if the user may not use the server at all, or AuthUnavailable
        if tokens can't be checked.
        """
        ...

    async def refresh(self, refresh_token: str, user_id: str) -> Tokens:
        """Exchange a user's refresh token for newer tokens.

        Raises Unauthenticated, also if they belong to another user, or AuthUnavailable if the identity provider can't
        be reached.
        """
        ...

    async def exchange(self, access_token: str, audience: str) -> Tokens:
        """Exchange the user's access token for one for `audience` (RFC 8693). Raises as `refresh` does."""
        ...
