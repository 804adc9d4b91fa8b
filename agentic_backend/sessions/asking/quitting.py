"""The word that ends a session, and the agent that answers it: a graph without a model, so that nothing is called."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.agents.catalog.catalog import AgentChat, AgentSettings
from agentic_backend.protocol.parts import Part, TextPart

_QUIT = "quit"


def asks_to_quit(parts: Sequence[Part]) -> bool:
    """Whether a message is the word "quit" alone, in any case."""
    return len(parts) == 1 and isinstance(parts[0], TextPart) and parts[0].text.strip().casefold() == _QUIT


class QuitAgent:
    def __init__(self, text: str) -> None:
        async def answer(state: MessagesState) -> dict[str, Any]:
            return {"messages": [AIMessage(text)]}

        self._graph = StateGraph(MessagesState).add_node("farewell", answer).add_edge(START, "farewell").compile()

    def agent(self, agent: CatalogAgent) -> CatalogAgent:
        """What answers in the place of `agent`, under its id."""
        settings = AgentSettings(
            id=agent.settings.id, class_path=f"{__name__}:QuitAgent", store="none", chat=AgentChat(history_exchanges=0)
        )
        return CatalogAgent(settings, self._graph)
