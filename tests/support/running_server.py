"""A real server in the test's event loop: real sockets, a real database, test agents and the assistant."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.agents.models.chat_models import load_models
from agentic_backend.config.loading import load_chat_profiles, load_settings
from agentic_backend.experts.sentinel.operations import OPERATIONS
from agentic_backend.hosting.loading import NO_APPLICATIONS, load_applications
from agentic_backend.server.process import running
from agentic_backend.transports.contract.doors import DOORS

FAST = {"models": {"default": {"model": "offline", "options": {"words_per_second": 0}}}}

EVERY_DOOR = [door.name for door in DOORS if door.by_setting]

ASSISTANT = {"id": "assistant", "class_path": "agentic_backend.experts.assistant.assistant:Assistant", "default": True}


@dataclass(frozen=True)
class RunningServer:
    """`address` is the public listener's URL, `internal` the internal one's; `data` is the database's directory."""

    address: str
    internal: str
    data: Path


@asynccontextmanager
async def running_server(
    directory: Path,
    *,
    agents: list[dict[str, Any]] | None = None,
    settings: dict[str, Any] | None = None,
    bound: socket.socket | None = None,
    assistant: bool = True,
) -> AsyncIterator[RunningServer]:
    """Serve `agents` and the assistant with the fast offline model, on free ports, with data in `directory`.

    `bound` is the public listener's socket, if the test makes its own. Without the `assistant`
    there are only `agents`.
    """
    config, catalog, data = directory / "settings.yaml", directory / "agents_catalog.yaml", directory / "data"
    data.mkdir(exist_ok=True)
    config.write_text(_yaml({**FAST, "server": {"port": 0, "grace_s": 0.2, "doors": EVERY_DOOR}} | (settings or {})))
    catalog.write_text(_yaml({"agents": [*([ASSISTANT] if assistant else []), *(agents or [])]}))
    loaded = load_settings(config, {"data.directory": str(data)})
    servers = {OPERATIONS, *loaded.mcp_servers}
    # To look through all installed packages would be a sixth of what a server's start costs.
    applications = load_applications(loaded.applications) if loaded.applications else NO_APPLICATIONS
    profiles = load_chat_profiles(loaded)
    manager = AgentManager.load(
        catalog,
        loaded.models.keys(),
        servers,
        profiles,
        loaded.apis,
        shipped=applications.catalogs,
        keys=applications.keys,
    )
    models = load_models(
        loaded.models, loaded.openai_model, fast_streams=loaded.fast_streams, embeddings=loaded.embeddings
    )
    async with running(loaded, manager, models, bound, applications=applications) as addresses:
        assert addresses.internal is not None
        yield RunningServer(addresses.public, addresses.internal, data)


def _yaml(value: dict[str, Any]) -> str:
    # The writer in Python takes longer than the server's start.
    return yaml.dump(value, Dumper=yaml.CSafeDumper)
