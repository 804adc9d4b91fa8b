"""A graph that ends on the result of a tool: `return_direct`."""

from langchain.agents import create_agent
from langchain_core.tools import tool
from support.phrase_model import PhraseModel


@tool(return_direct=True)
def tell(word: str) -> str:
    """Says the last word."""
    return f"The last word is {word}"


graph = create_agent(PhraseModel(), [tell])
