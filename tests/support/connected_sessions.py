"""Instances on one database that tell each other by Redis what they run."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from agentic_backend.kpi import Kpi
from agentic_backend.relay.redis.broadcast import redis_broadcast
from support.sessions import Sessions, open_sessions


async def connected(
    opened: AsyncExitStack, directory: Path, agents: dict[str, Any], redis_url: str, name: str
) -> Sessions:
    """An instance on the database in `directory`, which hears what the others tell by Redis."""
    is_up = asyncio.Event()
    broadcast = await opened.enter_async_context(
        redis_broadcast(redis_url, name, lambda _: is_up.set(), Kpi().broadcast)
    )
    await is_up.wait()
    sessions = await opened.enter_async_context(open_sessions(directory, agents, alone=False, broadcast=broadcast))
    # Its tasks start theirs, which the next one must not take for its own.
    await asyncio.sleep(0.1)
    return sessions
