"""Who somebody is, and the Authenticator that tells it from a token."""

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class User:
    """An authenticated person. `expires_at` is the end of the token in Unix seconds; None: it does not end."""

    id: str
    name: str
    roles: frozenset[str] = frozenset()
    expires_at: float | None = None


@dataclass(frozen=True, slots=True)
class Tokens:
    access_token: str = field(repr=False)
    refresh_token: str | None = field(default=None, repr=False)


class Authenticator(Protocol):
    @property
    def anonymous(self) -> User | None:
        """Who a client without a token is; None: nobody, a token is needed."""
        ...

    @property
    def ready(self) -> bool:
        """Whether tokens can be checked."""
        ...

    async def authenticate(self, access_token: str) -> User:
        """Who bears the token.

        Raises Unauthenticated, TokenExpired, Forbidden where the user may not use the server at all, or Internal where
        tokens can't be checked.
        """
        ...

    async def refresh(self, refresh_token: str, user_id: str) -> Tokens:
        """Trade a user's refresh token for newer tokens.

        Raises Unauthenticated, also where they are another user's, or Internal where nobody can be asked for them.
        """
        ...

    async def exchange(self, access_token: str, audience: str) -> Tokens:
        """Trade the user's access token for one meant for `audience` (RFC 8693). Raises as `refresh` does."""
        ...
