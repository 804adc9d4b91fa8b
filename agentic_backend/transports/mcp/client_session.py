"""The session of an MCP client: what its first message has told, within the id that it sends with all others. Pure.

So each instance knows it, also after a restart, and none has to keep it. It gives no rights: those come with the token.
"""

import re
from typing import Any, NamedTuple, Self
from uuid import uuid4

from agentic_backend.errors import BadFrame, NotFound
from agentic_backend.transports.mcp.messages import INVALID_PARAMS, RpcError

VERSIONS = ("2025-06-18", "2025-11-25")
"""The protocol's versions that are spoken, the last one with those that speak none of them."""
_PRIMES_SINCE = "2025-11-25"
_ID = re.compile(r"[0-9a-f]{32}(?P<forms>[fn])")
_FORMS, _NO_FORMS = "f", "n"


class ClientSession(NamedTuple):
    id: str | None
    """None of a client that has not introduced itself: it can't be asked, and can't cancel."""
    elicits: bool = False
    """Whether its person can be asked by a form."""
    primes: bool = False
    """Whether a stream may begin with an event without data, after which it can be taken up again."""

    @classmethod
    def begin(cls, params: dict[str, Any]) -> tuple[Self, str]:
        """The session that `initialize` begins, and the version that is spoken in it. Raises RpcError."""
        asked, capabilities = params.get("protocolVersion"), params.get("capabilities")
        if not isinstance(asked, str):
            raise RpcError(INVALID_PARAMS, "params.protocolVersion: expected a text")
        elicitation = capabilities.get("elicitation") if isinstance(capabilities, dict) else None
        elicits = isinstance(elicitation, dict) and (not elicitation or "form" in elicitation)
        begun = cls(f"{uuid4().hex}{_FORMS if elicits else _NO_FORMS}", elicits)
        return begun, asked if asked in VERSIONS else VERSIONS[-1]

    @classmethod
    def of(cls, session_id: str | None, version: str | None) -> Self:
        """The session that the headers name. Raises BadFrame, and NotFound for one that this server has not begun."""
        if version is not None and version not in VERSIONS:
            raise BadFrame(f"MCP-Protocol-Version: expected one of {', '.join(VERSIONS)}")
        primes = version is not None and version >= _PRIMES_SINCE
        if session_id is None:
            return cls(None, primes=primes)
        found = _ID.fullmatch(session_id)
        if found is None:
            raise NotFound("There is no such session; begin one with `initialize`.")
        return cls(session_id, found["forms"] == _FORMS, primes)
