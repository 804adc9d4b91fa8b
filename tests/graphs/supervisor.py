"""langgraph-supervisor in both output modes: a writer with a tool, and a joker made with the functional API."""

import warnings
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.func import entrypoint, task
from langgraph.graph.state import CompiledStateGraph
from langgraph.warnings import LangGraphDeprecatedSinceV10
from langgraph_supervisor import create_supervisor
from support.phrase_model import PhraseModel


@tool
def look_up(word: str) -> str:
    """Looks a word up."""
    return f"{word} means nothing"


_writer = create_agent(PhraseModel(), [look_up], name="writer")


@task
async def joke() -> AIMessage:
    return await PhraseModel().ainvoke("repeat after me: A message walks into a socket.")


@entrypoint()
async def joker(state: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [await joke()]}


joker.name = "joker"


def _supervised(**options: Any) -> CompiledStateGraph[Any, Any, Any, Any]:
    with warnings.catch_warnings():
        # The package still builds on LangGraph's former create_react_agent.
        warnings.simplefilter("ignore", LangGraphDeprecatedSinceV10)
        return create_supervisor([_writer, joker], model=PhraseModel(), **options).compile()


last_message = _supervised(output_mode="last_message")
full_history = _supervised(output_mode="full_history")
