"""Graphs whose state is a pydantic model or a dataclass, and whose messages are a plain list; each counts its runs."""

import operator
from dataclasses import dataclass
from typing import Annotated, Any

from langchain_core.messages import AnyMessage
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from pydantic import BaseModel
from support.phrase_model import PhraseModel


class Model(BaseModel):
    messages: Annotated[list[AnyMessage], add_messages]
    runs: int = 0


@dataclass
class Data:
    messages: Annotated[list[AnyMessage], operator.add]
    runs: int = 0


async def _answer(state: Model | Data) -> dict[str, Any]:
    if state.messages[-1].text == "count":
        return {"messages": [{"role": "assistant", "content": f"run {state.runs}"}], "runs": state.runs + 1}
    return {"messages": [await PhraseModel().ainvoke(state.messages)], "runs": state.runs + 1}


def _graph(state: type[Model] | type[Data]) -> CompiledStateGraph[Any, Any, Any, Any]:
    builder = StateGraph(state)
    builder.add_node("answer", _answer, input_schema=state)
    builder.add_edge(START, "answer")
    return builder.compile()


pydantic_model = _graph(Model)
data_class = _graph(Data)
