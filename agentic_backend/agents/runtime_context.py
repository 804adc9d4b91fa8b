"""RuntimeContext: what an agent and its tools know of the user and the exchange that they work for.

Graphs get it as LangGraph's `context`, never through `configurable`, whose content lands in checkpoints in clear.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class RuntimeContext:
    """One per use of an agent. `client` is what the client tells the agent; it is never identity."""

    user_id: str
    session_id: str | None
    exchange_id: str
    agent_id: str
    client: Mapping[str, Any] = field(default_factory=dict, repr=False)
    access_token: str | None = field(default=None, repr=False)
    refresh_token: str | None = field(default=None, repr=False)
