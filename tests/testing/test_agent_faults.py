"""The test kit fails agents that answer well under test, and would serve people badly."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

from agentic_backend.agents.agent_flow import CompiledGraph
from agentic_backend.testing import AgentFault, ScriptedModel, run_agent


def graph_of(node: Any) -> CompiledGraph:
    return StateGraph(MessagesState).add_node("answer", node).add_edge(START, "answer").compile()


def swallowing(model: BaseChatModel) -> CompiledGraph:
    async def answer(state: MessagesState) -> dict[str, Any]:
        try:
            return {"messages": [await model.ainvoke(state["messages"])]}
        except Exception:
            return {"messages": [AIMessage("I could not say.")]}

    return graph_of(answer)


async def test_an_agent_that_swallows_the_end_of_a_script_fails() -> None:
    said = await run_agent(swallowing, "Hello", model=ScriptedModel("Hi."))
    assert said.final_text == "Hi."
    with pytest.raises(AgentFault, match="swallowed ScriptEnded: The script has 0 turns"):
        await run_agent(swallowing, "Hello", model=ScriptedModel())


async def test_an_agent_that_ends_with_the_script_ends_by_its_error() -> None:
    def raising(model: BaseChatModel) -> CompiledGraph:
        async def answer(state: MessagesState) -> dict[str, Any]:
            return {"messages": [await model.ainvoke(state["messages"])]}

        return graph_of(answer)

    run = await run_agent(raising, "Hello", model=ScriptedModel())
    assert run.error is not None and run.error.detail is not None
    assert run.error.detail.type.endswith("ScriptEnded")


BLOCKING = {"agents": {"blocking_s": 0.2}}


@pytest.mark.parametrize(("settings", "blocks_s"), [(None, 1.2), (BLOCKING, 0.5)])
async def test_an_agent_that_blocks_the_event_loop_fails(settings: dict[str, Any] | None, blocks_s: float) -> None:
    async def answer(state: MessagesState) -> dict[str, Any]:
        time.sleep(blocks_s)
        return {"messages": [AIMessage("Well.")]}

    where = rf"'agent' blocked the event loop for \d+ ms or longer: .*{Path(__file__).name}:\d+"
    with pytest.raises(AgentFault, match=where):
        await run_agent(graph_of(answer), "Hello", settings=settings)


async def test_an_agent_that_waits_does_not() -> None:
    async def answer(state: MessagesState) -> dict[str, Any]:
        await asyncio.sleep(0.3)
        await asyncio.to_thread(time.sleep, 0.3)
        return {"messages": [AIMessage("Well.")]}

    assert (await run_agent(graph_of(answer), "Hello", settings=BLOCKING)).final_text == "Well."


AUTHORS = """
    from langchain_core.messages import AIMessage
    from langgraph.graph import START, MessagesState, StateGraph

    from agentic_backend.agents.agent_flow import AgentFlow

    BUILT = []

    class Counting(AgentFlow):
        async def async_init(self):
            self.asked = 0
            BUILT.append(self)

            async def answer(state):
                self.asked += 1
                return {"messages": [AIMessage(str(self.asked if forgets else len(state["messages"])))]}

            self.graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer").compile()

        def get_compiled_graph(self):
            return self.graph

    def test_it_is_asked_once(agent_runner):
        assert agent_runner(Counting, "one").final_text == "1"

    def test_it_is_asked_twice(agent_runner):
        assert agent_runner(Counting, ["one", "two"]).final_text == twice

    def test_how_often_agents_were_built():
        assert len(BUILT) == 4, "once, once warm, twice cold"
"""


@pytest.mark.parametrize(("forgets", "twice"), [(True, "2"), (False, "3")])
def test_an_agent_that_answers_otherwise_when_it_is_built_anew_fails(
    tmp_path: Path, *, forgets: bool, twice: str
) -> None:
    (tmp_path / "test_counting.py").write_text(f"forgets, twice = {forgets}, {twice!r}\n" + dedent(AUTHORS))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:schemathesis", str(tmp_path)]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert ("closed before it is asked again" in ended.stdout) == forgets, ended.stdout
    assert ("1 failed, 3 passed" if forgets else "3 passed in") in ended.stdout
    assert (ended.returncode == 0) == (not forgets)
