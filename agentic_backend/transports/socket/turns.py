"""Converts an `ask` frame to a Turn."""

from agentic_backend.protocol.frames import Ask
from agentic_backend.protocol.parts import TextPart
from agentic_backend.sessions.asking.turn import Turn


def turn_of(ask: Ask) -> Turn:
    """The turn that `ask` describes, without its tokens, which belong to the connection."""
    return Turn(
        parts=[TextPart(text=ask.message)],
        mode=ask.mode,
        session_id=ask.session_id,
        agent_id=ask.agent_id,
        chat_profile=ask.chat_profile,
        scope=ask.scope,
        client_exchange_id=ask.client_exchange_id,
        runtime_context=ask.runtime_context,
        attachments=tuple(ask.attachments),
    )
