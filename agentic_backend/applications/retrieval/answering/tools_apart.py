"""Tools apart from passages: what a document says can lead a model to no call.

Whether tools are called is decided without the passages; what is written with them is written without tools.
"""

import json
from collections.abc import Sequence
from typing import Any

from langchain.agents.middleware import ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.constants import TAG_NOSTREAM


def deciding(request: ModelRequest[Any]) -> ModelRequest[Any]:
    """The request by which the model decides. Unless it calls a tool, nobody sees what it says."""
    model = request.model
    unheard = model.model_copy(update={"tags": [*(model.tags or ()), TAG_NOSTREAM]})
    return request.override(model=unheard, response_format=None)


def has_calls(response: ModelResponse[Any]) -> bool:
    return any(isinstance(message, AIMessage) and message.tool_calls for message in response.result)


def without_tools(request: ModelRequest[Any]) -> ModelRequest[Any]:
    """The request for the answer. Calls and results are texts in it: without tools, providers take none of these."""
    return request.override(messages=_as_texts(request.messages), tools=[], tool_choice=None)


def without_calls(response: ModelResponse[Any]) -> None:
    """Take away calls that the model makes up where it was offered no tools.

    A structured answer is a call that is answered already: it stays, or the history would have a result of no call.
    """
    answered = {message.tool_call_id for message in response.result if isinstance(message, ToolMessage)}
    for message in response.result:
        if isinstance(message, AIMessage):
            message.tool_calls = [call for call in message.tool_calls if call["id"] in answered]
            message.invalid_tool_calls = []


def _as_texts(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    texts: list[AnyMessage] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            texts.append(HumanMessage([{"type": "text", "text": f"The result of {message.name}:"}, *_blocks(message)]))
        elif isinstance(message, AIMessage) and message.tool_calls:
            calls = [
                f"I call {call['name']} with {json.dumps(call['args'], default=str)}." for call in message.tool_calls
            ]
            texts.append(AIMessage("\n".join(filter(None, [str(message.text), *calls]))))
        else:
            texts.append(message)
    return texts


def _blocks(message: ToolMessage) -> list[Any]:
    return [{"type": "text", "text": message.content}] if isinstance(message.content, str) else message.content
