"""A server that reads its catalog again: the catalog, what it serves, and what it says at the console."""

from pathlib import Path
from typing import Any

import yaml

from support.recorded_agents import eventually
from support.rest_client import PREFIX, plain_http
from support.server_process import ServerProcess

ASSISTANT = {"id": "assistant", "class_path": "agentic_backend.experts.assistant.assistant:Assistant"}


def catalog(directory: Path, *entries: dict[str, Any]) -> None:
    (directory / "agents_catalog.yaml").write_text(yaml.safe_dump({"agents": list(entries)}))


async def agents_at(address: str) -> dict[str, Any]:
    async with plain_http() as http:
        shown = (await http.get(f"{address}{PREFIX}/agents")).json()
    return {agent["id"]: agent["name"] for agent in shown["agents"]}


async def console_says(server: ServerProcess, text: str) -> None:
    await eventually(lambda: text in server.stdout)
