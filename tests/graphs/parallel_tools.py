"""`create_agent` with tools that run at the same time: a slow one, a fast one, one that fails, one that hangs."""

import asyncio
import threading

from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware
from langchain_core.tools import tool
from support.phrase_model import PhraseModel

slow_may_end = threading.Event()
"""A test that clears it decides when the slow one ends; of threads, because each test has another event loop."""
slow_may_end.set()


@tool
async def slow(word: str) -> str:
    """Gives the word back after a while."""
    await asyncio.sleep(0.2)
    while not slow_may_end.is_set():
        await asyncio.sleep(0.01)
    return f"slow {word}"


@tool
def fast(word: str) -> str:
    """Gives the word back at once."""
    return f"fast {word}"


@tool
def failing(word: str) -> str:
    """Fails."""
    raise ValueError(f"no {word}")


@tool
async def wait() -> str:
    """Waits until it is stopped."""
    await asyncio.Event().wait()
    return "unreachable"


# Its errors become results, so that the model can go on.
_tolerant = ToolRetryMiddleware(max_retries=0, on_failure="continue")

graph = create_agent(PhraseModel(), [slow, fast, failing, wait], middleware=[_tolerant])
