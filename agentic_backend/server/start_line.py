"""What the log tells of a server that has started: what runs, on what, and within which limits."""

import platform
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.config.settings import Settings

_MOST_AGENTS = 50
_TOLD = {
    "max_running",
    "running_per_user",
    "asks_per_minute",
    "max_sockets",
    "sockets_per_user",
    "message_bytes",
    "frame_bytes",
    "run_timeout_s",
    "model_timeout_s",
    "tool_timeout_s",
}


def start_facts(settings: Settings, agents: AgentManager) -> dict[str, Any]:
    """The fields of the line. Of URLs they have the scheme only: user, host and query may be secrets."""
    ids = [agent.settings.id for agent in agents.served()]
    return {
        "version": version("agentic-backend"),
        "python": platform.python_version(),
        "store": urlsplit(settings.store.url or "sqlite:").scheme,
        "broadcast": settings.broadcast.url and urlsplit(settings.broadcast.url).scheme,
        "auth": settings.auth.mode,
        "workers": settings.server.workers,
        "agents": ids[:_MOST_AGENTS],
        "agents_refused": len(agents.problems),
        "models": {name: model.model for name, model in settings.models.items()},
        "mcp_servers": sorted(settings.mcp_servers),
        "limits": settings.limits.model_dump(mode="json", include=_TOLD),
    }
