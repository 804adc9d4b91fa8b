"""RuntimeContext: the user and the exchange that an agent and its tools work for.

Graphs get it as LangGraph's `context`, never through `configurable`, which checkpoints store in clear text.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class RuntimeContext:
    """One per exchange or query."""

    user_id: str
    # None for a query, which is stateless.
    session_id: str | None
    exchange_id: str
    agent_id: str
    # Data of the client for the agent; never proof of identity.
    client: Mapping[str, Any] = field(default_factory=dict, repr=False)
    # The user's tokens; `refresh_user_access_token` replaces them.
    access_token: str | None = field(default=None, repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    # The id of the exchange in which the run began; it stays the same when the run is interrupted and continues.
    run_id: str = ""
    # The system prompts of this run by agent id, for the agent and its crew.
    system_prompts: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.run_id = self.run_id or self.exchange_id

    def idempotency_key(self, call_id: str) -> str:
        """A key for the side effects of tool call `call_id`; it is the same each time this run repeats the call.

        An interrupted tool runs again when its run continues; a service that knows the key can do the work only once.
        """
        return hashlib.sha256(f"{self.run_id}:{call_id}".encode()).hexdigest()[:32]
