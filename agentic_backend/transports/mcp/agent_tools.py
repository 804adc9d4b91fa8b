"""The agents as tools: how they are described, what a call gives, and what it results in. Pure."""

from collections.abc import Collection, Sequence
from typing import Any

import orjson
from pydantic import Field, ValidationError

from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.errors import BadFrame, Internal
from agentic_backend.protocol.events import ErrorInfo, Final, HumanRequests
from agentic_backend.protocol.frames import MOST_ATTACHMENTS, Frame, Id, first_problem
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.protocol.parts import text_of
from agentic_backend.transports.answer_text import answer_in
from agentic_backend.transports.mcp.elicitations import words_of
from agentic_backend.transports.mcp.messages import Json, RpcErrorData

GET_ANSWER = "get_answer"
"""The name of the tool that is no agent."""


class AskAgent(Frame):
    """The arguments of an agent."""

    message: str = Field(min_length=1, repr=False)
    session_id: Id | None = None
    attachments: list[Id] = Field(default_factory=list, max_length=MOST_ATTACHMENTS)


class GetAnswer(Frame):
    """The arguments of `get_answer`."""

    exchange_id: Id


_TEXT: Json = {"type": "string"}
_ASK_SCHEMA: Json = {
    "type": "object",
    "properties": {
        "message": _TEXT | {"minLength": 1, "description": "What the agent is asked."},
        "session_id": _TEXT
        | {"description": "The conversation to go on with, from an earlier result; without it a new one begins."},
        "attachments": {
            "type": "array",
            "items": _TEXT,
            "description": "The ids of files that were uploaded to the server for this message.",
        },
    },
    "required": ["message"],
    "additionalProperties": False,
}
_GET_SCHEMA: Json = {
    "type": "object",
    "properties": {"exchange_id": _TEXT | {"description": "That of an earlier result."}},
    "required": ["exchange_id"],
    "additionalProperties": False,
}
_RESULT_SCHEMA: Json = {
    "type": "object",
    "properties": {
        "status": _TEXT
        | {
            "enum": ["ok", "blocked", "stopped", "error", "interrupted", "awaiting_human", "running", "refused"],
            "description": "How it has ended; `awaiting_human`: it waits for a person; `running`: it has not ended; "
            "`refused`: nothing has begun.",
        },
        "answer": _TEXT | {"description": "The agent's words."},
        "session_id": _TEXT | {"description": "The conversation; give it to the next call to go on."},
        "exchange_id": _TEXT | {"description": "This question and its answer."},
        "error": {"type": "object", "description": "What went wrong: code, content, retryable, request_id."},
        "asked": {"type": "object", "description": "What a person is asked."},
    },
    "required": ["status", "answer"],
}
_GET_TOOL: Json = {
    "name": GET_ANSWER,
    "title": "Get an answer",
    "description": "Waits for the answer to an earlier question, such as one that waited for a person, and returns it.",
    "inputSchema": _GET_SCHEMA,
    "outputSchema": _RESULT_SCHEMA,
    "annotations": {"readOnlyHint": True},
}


def tools_of(agents: Sequence[CatalogAgent]) -> list[Json]:
    return [*map(_tool, agents), _GET_TOOL]


def exposed(agents: Sequence[CatalogAgent], named: Collection[str]) -> list[CatalogAgent]:
    """Those that are tools: the `named` ones, or all if none is named."""
    chosen = (agent for agent in agents if not named or agent.settings.id in named)
    return [agent for agent in chosen if agent.settings.id != GET_ANSWER]


def arguments_in(params: Json, model: type[AskAgent] | type[GetAnswer]) -> Any:
    """Raises BadFrame, which names the argument."""
    try:
        return model.model_validate(params.get("arguments", {}))
    except ValidationError as error:
        raise BadFrame(first_problem(error, "arguments")) from None


def ended_result(final: Final, request_id: str) -> Json:
    """The result of an exchange that has ended."""
    answer = answer_in(final.messages)
    text = text_of(answer.parts) if answer is not None else ""
    error = None
    if final.status.failed:
        error = final.error or ErrorInfo.of(Internal(), request_id)
    said = text
    if error is not None:
        said = error.content
    elif final.status is ExchangeStatus.STOPPED:
        said = f"{text}\n\n(It was stopped before its end.)".strip()
    return _result(said, str(final.status), text, final.session_id, final.exchange_id, error)


def waiting_result(asked: HumanRequests, session_id: str | None, exchange_id: str, reason: str | None = None) -> Json:
    """The result of an exchange that waits for a person whom this client can't, or could not, ask.

    `reason` says what was wrong with their answer.
    """
    said = (
        f"This waits for a person:\n\n{words_of(asked)}\n\nThey decide in the chat page, or over any other door of "
        f"this server; then `{GET_ANSWER}` with this exchange_id has the answer."
    )
    if reason is not None:
        said = f"The answer was not taken: {reason}\n\n{said}"
    shown = asked.model_dump(mode="json")
    return _result(said, "awaiting_human", "", session_id, exchange_id, None, {"asked": shown})


def unfinished_result(error: ErrorInfo, session_id: str | None, exchange_id: str) -> Json:
    """The result where the stream of a call ends before its exchange, which goes on."""
    said = f"{error.content} `{GET_ANSWER}` with this exchange_id has the answer later."
    return _result(said, "running", "", session_id, exchange_id, error)


def refused_result(error: ErrorInfo) -> Json:
    """The result of a call that has begun nothing."""
    return _result(error.content, "refused", "", None, None, error)


def _tool(agent: CatalogAgent) -> Json:
    settings = agent.settings
    return {
        "name": settings.id,
        "title": settings.name,
        "description": settings.description or f"Asks the agent {settings.name}.",
        "inputSchema": _ASK_SCHEMA,
        "outputSchema": _RESULT_SCHEMA,
    }


def _result(
    said: str,
    status: str,
    answer: str,
    session_id: str | None,
    exchange_id: str | None,
    error: ErrorInfo | None,
    more: Json | None = None,
) -> Json:
    ids = {"session_id": session_id, "exchange_id": exchange_id}
    facts: Json = {"status": status, **{name: each for name, each in ids.items() if each is not None}}
    if error is not None:
        facts["error"] = RpcErrorData.of(error).model_dump(mode="json")
    # The facts stand in words too: many clients show a model no more than the text.
    texts = [said, orjson.dumps(facts).decode()]
    return {
        "content": [{"type": "text", "text": text} for text in texts if text],
        "structuredContent": {**facts, "answer": answer, **(more or {})},
        "isError": error is not None,
    }
