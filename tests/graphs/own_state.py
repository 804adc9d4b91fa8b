"""A graph with state of its own beside `messages`.

Its reducers give back something else than they take, so that what is restored must not pass through them. One channel
is no input; one is hidden from the output; two are not meant to last. It has a checkpointer, as such graphs often do.
"""

from dataclasses import dataclass
from typing import Annotated, Any

from langgraph.channels import EphemeralValue, UntrackedValue
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from support.phrase_model import PhraseModel


@dataclass
class Mood:
    name: str
    strength: int


def _append(log: list[str], entry: str) -> list[str]:
    return [*log, entry]


class Asked(MessagesState):
    log: Annotated[list[str], _append]


class Shown(Asked):
    asked: Annotated[int, lambda count, more: count + more]
    mood: Mood
    passing: Annotated[str, EphemeralValue]
    untracked: Annotated[str, UntrackedValue]


class State(Shown):
    hidden: str


_model = PhraseModel()


def _count(state: State) -> dict[str, Any]:
    strength = state["mood"].strength if "mood" in state else 0
    found = " ".join(name for name in ("hidden", "passing", "untracked") if name in state)
    return {
        "log": f"{state['messages'][-1].text} [{found}]",
        "asked": 1,
        "mood": Mood("good", strength + 1),
        "hidden": "from the output",
        "untracked": "never stored",
    }


async def _answer(state: State) -> dict[str, Any]:
    answer: Any = ("ai", f"{state['log']} {state['asked']} {state['mood'].name} {state['mood'].strength}")
    if state["messages"][-1].text != "show the state":
        answer = await _model.ainvoke(state["messages"])
    return {"messages": [answer], "passing": "by"}


_builder = StateGraph(State, input_schema=Asked, output_schema=Shown)
_builder.add_node("count", _count)
_builder.add_node("answer", _answer)
_builder.add_edge(START, "count")
_builder.add_edge("count", "answer")
saver = InMemorySaver()
graph = _builder.compile(checkpointer=saver)
