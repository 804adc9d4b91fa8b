"""Messages are stored in the order in which people first see them, whatever a graph is made of."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from support.drafts import Transcript, ai, result, token, update
from support.shown_order import TimedTranscript, check_order
from support.streams import interleaved, lanes
from support.transcribed import ASKED, transcribe
from support.turn_model import Turn, TurnModel, call

from agentic_backend.agents.parts import emit_parts

LINK = {"type": "link", "kind": "view", "href": "https://example.org"}


@tool
async def search(word: str) -> str:
    """Looks a word up."""
    get_stream_writer()({"searching": word})
    return f"{word} is a word"


@dataclass(frozen=True)
class Node:
    """A node of a random graph. Its texts begin with marks made of its name."""

    kind: str
    words: int
    thinks: bool

    def made(self, name: str) -> Callable[[MessagesState], Any]:
        node: Callable[[str], Callable[[MessagesState], Any]] = getattr(self, self.kind)
        return node(name)

    def says(self, *marks: str) -> TurnModel:
        turns = [Turn(f"<{mark}>" + " word" * self.words, thought=f"<~{mark}>" * self.thinks) for mark in marks]
        return TurnModel(turns=turns, own_ids="first")

    def answer(self, name: str) -> Any:
        model = self.says(name)

        async def run(state: MessagesState) -> dict[str, Any]:
            return {"messages": [await model.ainvoke("say")]}

        return run

    def aside(self, name: str) -> Any:
        """Doesn't return what its model says."""
        model = self.says(name)

        async def run(state: MessagesState) -> dict[str, Any]:
            await model.ainvoke("say")
            return {}

        return run

    def judged(self, name: str) -> Any:
        """Returns the first of two texts."""
        model = self.says(f"{name}a", f"{name}b")

        async def run(state: MessagesState) -> dict[str, Any]:
            said = await model.ainvoke("say")
            await model.ainvoke("judge")
            return {"messages": [said]}

        return run

    def refined(self, name: str) -> Any:
        """Returns the last of two texts."""
        model = self.says(f"{name}a", f"{name}b")

        async def run(state: MessagesState) -> dict[str, Any]:
            await model.ainvoke("draft")
            return {"messages": [await model.ainvoke("refine")]}

        return run

    def whole(self, name: str) -> Any:
        """Says something without a model."""
        return lambda state: {"messages": [AIMessage(f"<{name}> said")]}

    def emits(self, name: str) -> Any:
        async def run(state: MessagesState) -> dict[str, Any]:
            get_stream_writer()({"at": name})
            emit_parts(LINK)
            return {}

        return run

    def agent(self, name: str) -> Any:
        return self._agent(name)

    def consults(self, name: str) -> Any:
        """Keeps to itself what its agent says."""
        agent = self._agent(name)

        async def run(state: MessagesState) -> dict[str, Any]:
            await agent.ainvoke({"messages": [ASKED]})
            return {}

        return run

    def _agent(self, name: str) -> Any:
        looks = [Turn(f"<{name}a>" * self.thinks, calls=[call("search", f"c{name}", word=name)])]
        turns = [*looks, Turn(f"<{name}b>" + " word" * self.words)]
        return create_agent(TurnModel(turns=turns, own_ids="first"), [search])


KINDS = ["answer", "aside", "judged", "refined", "whole", "emits", "agent", "consults"]
NODES = st.builds(Node, st.sampled_from(KINDS), st.integers(0, 6), st.booleans())
BRANCHES = st.lists(st.lists(NODES, min_size=1, max_size=3), min_size=1, max_size=3)


def test_what_no_node_returns_does_not_overtake_the_text_before_it() -> None:
    transcript = Transcript(
        token("First", "m1", last=True),
        update(ai("First", "m1")),
        token("Second", "m2", last=True, node="judge"),
        update(node="judge"),
        token("Third", "m3", last=True),
        update(ai("Third", "m3")),
    ).finish()
    assert transcript.told == [("observation", "First"), ("observation", "Second"), ("final", "Third")]


def test_what_a_node_says_before_the_message_that_it_returns_stands_before_its_calls() -> None:
    transcript = Transcript(
        token("Draft", "m1", last=True),
        token("Look", "m2", calls=[("c1", "a", "{}")], last=True),
        update(ai("Look", "m2", ("c1", "a"))),
    )
    assert transcript.told == [("observation", "Draft"), ("observation", "Look"), ("tool_call", "a(c1)")]


def test_the_result_of_another_branch_stands_after_a_text_that_was_complete() -> None:
    transcript = Transcript(
        update(ai("", "m1", ("c1", "a"))),
        token("Beside", "m2", last=True, node="other"),
        update(ai("Beside", "m2"), node="other"),
        update(result("c1"), node="tools"),
        update(ai("Found", "m3")),
    ).finish()
    assert transcript.told[1:] == [("observation", "Beside"), ("tool_result", "c1=done"), ("final", "Found")]


def test_a_text_that_no_node_returned_is_the_message_of_a_later_node_that_says_the_same() -> None:
    transcript = Transcript(
        update(ai("First", "m1")),
        token("Second", "m2", last=True, node="think"),
        update(node="think"),
        update(AIMessage("Second"), node="answer"),
    ).finish()
    assert transcript.told == [("observation", "First"), ("final", "Second")]


@given(st.lists(BRANCHES, min_size=1, max_size=3))
@settings(max_examples=60)
def test_a_graph_is_stored_as_it_was_shown(stages: Sequence[Sequence[Sequence[Node]]]) -> None:
    """Each stage has branches, which run at the same time; each branch has nodes, one after the other."""
    transcript = TimedTranscript(history=[ASKED])
    asyncio.run(transcribe(graph_of(stages), transcript))
    transcript.finish()
    names = [name for _, mode, told in transcript.parts if mode == "updates" for name in told]
    at = {name: transcript.updated_at(name) for name in names}
    check_order(
        transcript, {f"<{mark}{name}{end}>": at[name] for name in at for end in ("", *"ab") for mark in ("", "~")}
    )


def graph_of(stages: Sequence[Sequence[Sequence[Node]]]) -> Any:
    graph = StateGraph(MessagesState)
    before: list[str] = [START]
    for stage, branches in enumerate(stages):
        ends = []
        for number, branch in enumerate(branches):
            names = [f"n{stage}.{number}.{place}" for place in range(len(branch))]
            for name, node in zip(names, branch, strict=True):
                graph.add_node(name, node.made(name))
            graph.add_edge(before if before != [START] else START, names[0])
            for one, other in pairwise(names):
                graph.add_edge(one, other)
            ends.append(names[-1])
        before = ends
    return graph.compile()


@given(st.data())
@settings(max_examples=200)
def test_models_are_stored_as_they_were_shown_however_they_interleave(data: st.DataObject) -> None:
    spoken = data.draw(lanes())
    transcript = TimedTranscript(*data.draw(interleaved(spoken))).finish()
    numbers = {id(part): number for number, part in enumerate(transcript.parts, 1)}
    whole = {}
    for one in (one for lane in spoken for one in lane):
        done = next(part for part in one.parts if part[1] == "updates")
        whole[one.mark] = whole[one.thought_mark] = numbers[id(done)]
    check_order(transcript, whole)
