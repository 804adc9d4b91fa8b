"""langgraph-swarm: Alice and Bob hand over to each other; each has a tool of its own."""

from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph_swarm import create_handoff_tool, create_swarm
from support.phrase_model import PhraseModel


@tool
def add(a: int, b: int) -> str:
    """Adds."""
    return f"The sum is {a + b}"


@tool
def shout(word: str) -> str:
    """Shouts."""
    return f"{word.upper()}!"


_alice = create_agent(PhraseModel(), [add, create_handoff_tool(agent_name="bob")], name="alice")
_bob = create_agent(PhraseModel(), [shout, create_handoff_tool(agent_name="alice")], name="bob")

graph = create_swarm([_alice, _bob], default_active_agent="alice").compile()
