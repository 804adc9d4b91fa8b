"""The doors: the ways in to the server, each with its paths."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Door:
    name: str
    paths: tuple[str, ...]
    """What its paths begin with."""
    description: str
    subprotocol: str | None = None
    """Of a WebSocket; None if there is none."""
    own: tuple[str, ...] = ()
    """All of its paths, where those of applications may begin as they do."""
    by_setting: bool = False
    """Whether it is open only where `server.doors` names it."""


DOORS = (
    Door("websocket", ("/agentic/v1/chatbot/query/ws",), "Chat Protocol v2 over a WebSocket.", "chat.v2"),
    Door("rest", ("/agentic/v1",), "REST calls, and exchanges as server-sent events of Chat Protocol v2."),
    Door("classic", ("/agentic/v1/chatbot",), "Chat pages and scripts that were written for Fred up to version 1.5."),
    Door(
        "session-stream",
        ("/sessions", "/submissions", "/admin/sessions"),
        "Sessions, and answers as five server-sent events.",
    ),
    Door(
        "chat-runs",
        ("/api/chat",),
        "Runs that a client starts, decides on and resumes by their names.",
        own=("/api/chat", "/api/chat/tool-approval", "/api/chat/resume"),
    ),
    Door(
        "openai",
        ("/v1/models", "/v1/chat", "/v1/responses"),
        "Clients that were written for OpenAI's API: an agent is a model.",
        by_setting=True,
    ),
    Door(
        "mcp",
        ("/mcp", "/.well-known/oauth-protected-resource/mcp"),
        "Clients of the Model Context Protocol: an agent is a tool.",
        by_setting=True,
    ),
    Door(
        "ag-ui",
        ("/ag-ui",),
        "Front ends that speak the Agent User Interaction Protocol.",
        by_setting=True,
    ),
    Door("applications", ("/apps",), "Calls of the applications that the server has loaded."),
    Door("contract", ("/openapi.json", "/asyncapi.json"), "The documents that machines read."),
)


def door_of(path: str, doors: Sequence[Door] = DOORS) -> Door:
    """The one of `doors` with the longest beginning of `path`."""
    beginnings = [(begin, door) for door in doors for begin in door.paths if f"{path}/".startswith(f"{begin}/")]
    return max(beginnings, key=lambda beginning: len(beginning[0]))[1]
