"""What an author is told when an ask is refused because the agent's code can't be imported."""

from collections.abc import Collection

from agentic_backend.auth.user import User
from agentic_backend.disclosure.exception_detail import detail_of
from agentic_backend.errors import AgenticError, AgentUnavailable
from agentic_backend.protocol.events import ErrorDetail


def detail_for(user: User | None, error: AgenticError, secrets: Collection[str]) -> ErrorDetail | None:
    """The exception behind a refusal, if it is the agent's and `user` may see it; without `secrets`."""
    if user is None or not user.sees_details or not isinstance(error, AgentUnavailable):
        return None
    return detail_of(error, secrets)
