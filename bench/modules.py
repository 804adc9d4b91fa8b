"""What ten modules that do nothing add to the first token, of new sessions and within one session.

Two servers in one process, one with the modules and one without, are asked in turn.
"""

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from figures import median
from support.chat_client import ChatClient, chat
from support.running_server import running_server

from agentic_backend.policy.chat_module import ChatModule
from agentic_backend.policy.hook_context import HookContext
from agentic_backend.policy.hook_result import CONTINUE, HookResult

MODULES, ROUNDS = 10, 200
_PAUSE_S = 0.1
AGENT: dict[str, Any] = {"id": "scripted", "class_path": "scripted_graph:no_delay"}


class DoesNothing(ChatModule):
    async def before_ai(self, context: HookContext) -> HookResult:
        return CONTINUE

    async def after_ai(self, context: HookContext) -> HookResult:
        return CONTINUE


async def _first_token_ms(client: ChatClient, session_id: str | None) -> tuple[float, str]:
    # Longer than the server paces a connection's text, which would delay the first of an answer that follows at once.
    await asyncio.sleep(_PAUSE_S)
    began = time.perf_counter()
    await client.send({"type": "ask", "message": "hello", "agent_id": "scripted", "session_id": session_id})
    await client.until("delta")
    took_ms = (time.perf_counter() - began) * 1000
    return took_ms, (await client.until("final"))["session_id"]


async def _measure() -> dict[str, float]:
    async with AsyncExitStack() as stack:
        clients = []
        for name, entries in (("without", []), ("with", _entries())):
            directory = Path(stack.enter_context(TemporaryDirectory()))
            file = directory / "modules.yaml"
            file.write_text(yaml.safe_dump({"modules": entries}))
            settings = {"modules": {"file": str(file)}, "titles": {"enabled": False}}
            server = running_server(directory, agents=[AGENT], settings=settings)
            clients.append(
                (name, await stack.enter_async_context(chat((await stack.enter_async_context(server)).address)))
            )
        times: dict[str, list[float]] = {}
        sessions: dict[str, str | None] = {}
        for round_number in range(ROUNDS):
            if round_number % 10 == 0:
                # Few exchanges in each session: the history that is read stays short.
                sessions.clear()
            # Each in turn is the first, because what the other one has left to do costs the second a little.
            for name, client in clients if round_number % 2 else clients[::-1]:
                took_ms, session_id = await _first_token_ms(client, None)
                times.setdefault(f"new, {name}", []).append(took_ms)
                took_ms, sessions[name] = await _first_token_ms(client, sessions.get(name, session_id))
                times.setdefault(f"in a session, {name}", []).append(took_ms)
    return {name: median(found) for name, found in times.items()}


def _entries() -> list[dict[str, Any]]:
    return [{"name": f"nothing-{number}", "class_path": f"{__name__}:DoesNothing"} for number in range(MODULES)]


def measure() -> dict[str, float]:
    """Medians of the first token in ms."""
    return asyncio.run(_measure())


if __name__ == "__main__":
    print(measure())
