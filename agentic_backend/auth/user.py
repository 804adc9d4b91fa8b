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

    async def authenticate(self, access_token: str) -> User:
        """Raises Unauthenticated or TokenExpired."""
        ...

    async def refresh(self, refresh_token: str) -> Tokens:
        """Trade a refresh token for newer tokens. Raises Unauthenticated."""
        ...
