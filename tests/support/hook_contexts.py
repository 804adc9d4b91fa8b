"""HookContexts for tests of modules."""

from collections.abc import Sequence

from agentic_backend.policy.chat_module import ModuleServices
from agentic_backend.policy.hook_context import (
    ConversationFacts,
    CurrentMessage,
    HookContext,
    Point,
    RequestFacts,
    ResponseFacts,
    ScopeFacts,
    SessionFacts,
    ToolFacts,
    UserFacts,
)
from agentic_backend.protocol.messages import Channel, ChatMessage, Role, SessionState, utc_now
from agentic_backend.protocol.parts import Part, TextPart


async def no_model(_model: str | None, _prompt: str, _text: str) -> str:
    raise AssertionError("This module asks no model.")


SERVICES = ModuleServices(ask_model=no_model)


def hook_context(
    message: str | Sequence[Part] = "",
    *,
    response: str | None = None,
    tool: str | None = None,
    earlier: Sequence[tuple[Role, str]] = (),
    session: str | None = "session-1",
    point: Point = Point.BEFORE_AI,
) -> HookContext:
    """The context of an exchange with `message`, after the `earlier` messages of its session."""
    parts: Sequence[Part] = [TextPart(text=message)] if isinstance(message, str) else message
    messages = [
        ChatMessage(
            role=role,
            channel=Channel.FINAL,
            parts=[TextPart(text=text)],
            session_id=session,
            exchange_id=f"exchange-{rank}",
            rank=rank,
            timestamp=utc_now(),
        )
        for rank, (role, text) in enumerate(earlier)
    ]
    return HookContext(
        request=RequestFacts("request-1", point, utc_now()),
        user=UserFacts("ada", "Ada"),
        scope=ScopeFacts(),
        tool=ToolFacts("echo", "Echo", "graph"),
        session=SessionFacts(session, SessionState.ACTIVE, utc_now(), len(messages)),
        conversation=ConversationFacts(CurrentMessage("exchange-now", len(messages), parts), messages),
        response=None if response is None else ResponseFacts(response, tool=tool),
    )
