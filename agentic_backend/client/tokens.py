"""The user's access token: where it comes from, and when it is renewed."""

import asyncio
import inspect
import os
import time
from base64 import urlsafe_b64decode
from collections.abc import Awaitable, Callable

from pydantic_core import from_json

from agentic_backend.client.errors import Unreachable
from agentic_backend.system_errors import summary_of

TokenSource = str | Callable[[], str | Awaitable[str]] | None
"""A token, a function (also an asynchronous one) that gets one, or None where the server asks for none."""

TOKEN_VARIABLE = "CHAT_TOKEN"
"""The environment variable with the token for a running server, for the commands that use the client."""
TOKEN_NOT_GIVEN = "The token function did not return in time."
_SOURCE_TIMEOUT_S = 30
_SOONEST_RENEWAL_S = 1.0


def token_of_environment() -> str | None:
    """The token in the environment, if there is one."""
    return os.environ.get(TOKEN_VARIABLE, "").strip() or None


class Tokens:
    """The newest token of a source. A function is called again after half of the time that the token has left.

    `newest` and `renewed` raise Unreachable where it raises, does not return in time, or gives no text.
    """

    def __init__(self, source: TokenSource) -> None:
        self._source = source
        self._token = source if isinstance(source, str) else None
        self._renew_at = 0.0
        """When the token is due to be renewed (`time.time`); infinite if its expiry is unknown."""

    @property
    def renewable(self) -> bool:
        return callable(self._source)

    @property
    def renewal_in_s(self) -> float | None:
        """The seconds until the token is due to be renewed; None if it never is."""
        if not self.renewable or self._renew_at == float("inf"):
            return None
        return max(0.0, self._renew_at - time.time())

    async def newest(self) -> str | None:
        return await self.renewed() if self.renewal_in_s == 0 else self._token

    async def renewed(self) -> str | None:
        """A token that the source is asked for now."""
        if callable(self._source):
            self._token = await _given_by(self._source)
            expiry, now = _expiry_of(self._token), time.time()
            self._renew_at = float("inf") if expiry is None else now + max(_SOONEST_RENEWAL_S, (expiry - now) / 2)
        return self._token


async def _given_by(source: Callable[[], str | Awaitable[str]]) -> str:
    """Raises Unreachable, whose text has nothing of what the source says: that may be secret."""
    try:
        async with asyncio.timeout(_SOURCE_TIMEOUT_S) as limit:
            token = source()
            token = await token if inspect.isawaitable(token) else token
    except (Exception, asyncio.CancelledError) as failed:
        # Else it is the source that was cancelled, or raises so.
        if isinstance(failed, asyncio.CancelledError) and (task := asyncio.current_task()) and task.cancelling():
            raise
        if limit.expired():
            raise Unreachable(TOKEN_NOT_GIVEN) from failed
        raise Unreachable(f"The token function failed: {summary_of(failed, with_host=False)}.") from failed
    if not isinstance(token, str):
        raise Unreachable("The token function failed: it gave no text.")
    return token


def _expiry_of(token: str) -> float | None:
    """The `exp` of a JWT, unverified; None if `token` is none or has none."""
    try:
        claims = from_json(urlsafe_b64decode(token.split(".")[1] + "=="), allow_inf_nan=False)
        expiry = claims["exp"]
    except (IndexError, KeyError, TypeError, ValueError):
        return None
    return float(expiry) if isinstance(expiry, int | float) else None
