import asyncio

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool, tool

from agentic_backend.agents.background import background


@background
@tool
async def build_report(topic: str) -> str:
    """Build a report about a topic; this takes long."""
    await asyncio.sleep(0.01)  # your work
    return f"The report about {topic}."


def build(model: BaseChatModel, tools: list[BaseTool]):
    return create_agent(model, tools=[build_report, *tools], system_prompt="You build reports.")
