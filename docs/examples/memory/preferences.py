from typing import Any

from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import tool

PREFERENCES = ("preferences",)


@tool
async def remember(what: str, value: str, runtime: ToolRuntime[Any, Any]) -> str:
    """Remember a preference of the user, such as `drink` and `tea`."""
    await runtime.store.aput(PREFERENCES, what, {"value": value})
    return "Remembered."


@tool
async def recall(runtime: ToolRuntime[Any, Any]) -> str:
    """Tell all preferences of the user."""
    items = await runtime.store.asearch(PREFERENCES)
    return ", ".join(f"{item.key}: {item.value['value']}" for item in items) or "nothing yet"


def build(model: BaseChatModel):
    return create_agent(model, tools=[remember, recall], system_prompt="You know what the user likes.")
