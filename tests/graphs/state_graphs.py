"""Graphs whose state is kept: with a node named like a channel, before and after deploys, with summaries."""

import operator
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any

from deepagents.backends import StateBackend
from deepagents.middleware.filesystem import FilesystemMiddleware
from deepagents.middleware.summarization import SummarizationMiddleware as DeepSummarizationMiddleware
from langchain.agents import create_agent
from langchain.agents.middleware import ModelCallLimitMiddleware, SummarizationMiddleware
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from support.phrase_model import PhraseModel


class Counted(MessagesState):
    count: Annotated[int, operator.add]


def _count(state: Counted) -> dict[str, Any]:
    told = f"{state.get('count', 0) + 1} of {len(state['messages'])}"
    if state["messages"][-1].text == "ask me":
        told += f" {interrupt('Well?')}"
    return {"messages": [AIMessage(told)], "count": 1}


named_like_a_channel = StateGraph(Counted).add_node("count", _count).add_edge(START, "count").compile()


@dataclass
class Basket:
    fruit: str


@dataclass
class FullBasket:
    fruit: str
    price: int


def _deployed(type_: Any, told: Any, left: Any) -> Any:
    """A graph whose channel `own` has this type; `told` makes a text of its value, `left` is what it leaves."""

    class State(MessagesState):
        own: type_
        other: str

    def answer(state: Any) -> dict[str, Any]:
        text = told(state["own"]) if state.get("own") else "nothing"
        return {"messages": [AIMessage(f"{text}, {state.get('other')}")], "own": left, "other": "stays"}

    return StateGraph(State).add_node("answer", answer).add_edge(START, "answer").compile()


as_list = _deployed(Annotated[list[str], operator.add], ", ".join, ["apple"])
as_dict = _deployed(Annotated[dict[str, int], operator.or_], lambda own: str(dict(own)), {"apple": 1})
as_basket = _deployed(Basket, lambda own: own.fruit, Basket("apple"))
as_full_basket = _deployed(FullBasket, lambda own: f"{own.fruit} {own.price}", FullBasket("pear", 2))
as_wider_list = _deployed(list[str] | None, ", ".join, ["pear"])

summaries: list[int] = []
"""How many messages each summary was made of."""


class SummarizingModel(PhraseModel):
    """Streams a summary, word by word."""

    async def _astream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        summaries.append(len(messages))
        for word in ("They ", "greeted."):
            chunk = ChatGenerationChunk(message=AIMessageChunk(word))
            if run_manager is not None:
                await run_manager.on_llm_new_token(word, chunk=chunk)
            yield chunk


summarizing = create_agent(
    PhraseModel(),
    tools=[],
    middleware=[SummarizationMiddleware(SummarizingModel(), trigger=("messages", 5), keep=("messages", 1))],
)


# deepagents' summaries stay beside the messages, in a private channel.
deep_summarizing = create_agent(
    PhraseModel(),
    tools=[],
    middleware=[
        FilesystemMiddleware(backend=StateBackend()),
        DeepSummarizationMiddleware(
            SummarizingModel(), backend=StateBackend(), trigger=("messages", 5), keep=("messages", 1)
        ),
    ],
)


def _limited(middleware: Any) -> Any:
    return create_agent(PhraseModel(), tools=[], middleware=[middleware])


limited = _limited(ModelCallLimitMiddleware(thread_limit=2, exit_behavior="end"))
