"""Asked: what was asked, by whom, and under which names."""

from dataclasses import dataclass
from datetime import datetime

from agentic_backend.protocol.messages import ChatMessage, Session


@dataclass(frozen=True, slots=True)
class Asked:
    """`opening` is the user's message; `resumes` the interrupted exchange that this one continues.

    `ran_ms` and `first_token_ms` are those that an exchange had before a pause.
    """

    user_id: str
    agent_id: str
    client_exchange_id: str | None
    request_id: str
    started_at: datetime
    session: Session | None
    opening: ChatMessage
    resumes: str | None = None
    ran_ms: int = 0
    first_token_ms: int | None = None

    @property
    def names(self) -> dict[str, object]:
        """What its lines in the log are found by."""
        return {
            "request_id": self.request_id,
            "exchange_id": self.opening.exchange_id,
            "session_id": self.opening.session_id,
            "agent_id": self.agent_id,
        }
