"""The stored messages of a thread, in the form that AG-UI has for them. Pure."""

from collections.abc import Iterator

import orjson

from agentic_backend.protocol.messages import Channel, ChatMessage, Role
from agentic_backend.protocol.parts import ToolCallPart, ToolResultPart, text_of
from agentic_backend.transports.ag_ui.events import Json


def tool_call_id_of(exchange_id: str, call_id: str) -> str:
    """Unique in a thread, as AG-UI has it; a call's own id is so in its exchange."""
    return f"{exchange_id}:{call_id}"


def result_id_of(tool_call_id: str) -> str:
    """The id of the message with the result of a call."""
    return f"{tool_call_id}:result"


def stored_id_of(exchange_id: str, rank: int) -> str:
    """The id of a message that was not shown while it was written."""
    return f"{exchange_id}:r{rank}"


def arguments_of(call: ToolCallPart) -> str:
    return orjson.dumps(call.args).decode()


def told(message: ChatMessage, exchange_id: str, message_id: str) -> Iterator[Json]:
    """A message as AG-UI has it: results of tools are messages of their own."""
    text, calls = text_of(message.parts), []
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            function = {"name": part.name, "arguments": arguments_of(part)}
            calls.append({"id": tool_call_id_of(exchange_id, part.call_id), "type": "function", "function": function})
        elif isinstance(part, ToolResultPart):
            named = tool_call_id_of(exchange_id, part.call_id)
            yield {"id": result_id_of(named), "role": "tool", "toolCallId": named, "content": part.content}
    if message.role is Role.USER:
        yield {"id": message_id, "role": "user", "content": text}
    elif message.role is Role.ASSISTANT and (text or calls):
        role = "reasoning" if message.channel is Channel.THOUGHT else "assistant"
        yield {"id": message_id, "role": role, "content": text, **({"toolCalls": calls} if calls else {})}
