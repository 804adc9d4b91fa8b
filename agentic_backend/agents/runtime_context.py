"""RuntimeContext: what an agent and its tools know of the user and the exchange that they work for.

Graphs get it as LangGraph's `context`, never through `configurable`, whose content lands in checkpoints in clear.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class RuntimeContext:
    """One per use of an agent. `client` is what the client tells the agent; it is never identity.

    `run_id` is the exchange in which the run began: the same however often it is interrupted and goes on.
    """

    user_id: str
    session_id: str | None
    exchange_id: str
    agent_id: str
    client: Mapping[str, Any] = field(default_factory=dict, repr=False)
    access_token: str | None = field(default=None, repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    run_id: str = ""

    def __post_init__(self) -> None:
        self.run_id = self.run_id or self.exchange_id

    def idempotency_key(self, call_id: str) -> str:
        """A key for what the tool call `call_id` does outside: the same whenever this call of this run is made again.

        A tool that was cut in its work runs again when its run goes on; who knows the key does its work once.
        """
        return hashlib.sha256(f"{self.run_id}:{call_id}".encode()).hexdigest()[:32]
