"""New agent: LangChain's `create_agent` with a tool. The server calls `build` for each session."""

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool, tool

PROMPT = "You answer briefly. Count words with your tool, never by yourself."


@tool
def word_count(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


def build(model: BaseChatModel, tools: list[BaseTool]):
    """The agent; the model and the standard tools are those of the catalog entry."""
    return create_agent(model, tools=[word_count, *tools], system_prompt=PROMPT)
