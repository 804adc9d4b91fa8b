"""GraphRun: goes on from nothing but bytes, with fresh objects; no tool that has ended runs twice."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt
from support.driven_run import DrivenRun, ReadingModel, check_calls, in_a_new_exchange, noted
from support.recorded_agents import agent_services, context_of, entry_of
from support.turn_model import Turn, call

from agentic_backend.agents.agent_flow import CompiledGraph, GraphFlow
from agentic_backend.agents.delegation import delegation_tool
from agentic_backend.agents.runtime_context import RuntimeContext
from agentic_backend.agents.state.exchange_checkpoints import ExchangeCheckpoints
from agentic_backend.auth.user import Tokens
from agentic_backend.errors import CheckpointMissing
from agentic_backend.exchange.run.graph_run import Drained
from agentic_backend.protocol.parts import ToolCallPart
from agentic_backend.stores.sqlite import SqliteStore

TURNS = [Turn("Let me see.", calls=[call("quick", "c1"), call("slow", "c2")]), Turn("Done.")]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path / "store.db", timeout_s=10)
    yield store
    await store.aclose()


class Tools:
    """Two tools that write down that they have run; the slow one begins, and ends once it `may`."""

    def __init__(self, journal: Path) -> None:
        self.journal = journal
        self.may = asyncio.Event()
        self.keys: list[str] = []

    def all(self) -> list[StructuredTool]:
        return [StructuredTool.from_function(coroutine=one) for one in (self.quick, self.slow)]

    async def quick(self, runtime: ToolRuntime[RuntimeContext]) -> str:
        """Be quick."""
        self.keys.append(runtime.context.idempotency_key(str(runtime.tool_call_id)))
        self._note("quick")
        return "quickly"

    async def slow(self, runtime: ToolRuntime[RuntimeContext]) -> str:
        """Be slow."""
        self.keys.append(runtime.context.idempotency_key(str(runtime.tool_call_id)))
        self._note("slow-began")
        await self.may.wait()
        self._note("slow")
        return "slowly"

    def _note(self, what: str) -> None:
        with self.journal.open("a") as file:
            file.write(f"{what}\n")


def plain(tools: Tools) -> CompiledGraph:
    return create_agent(ReadingModel(turns=TURNS), tools=tools.all(), context_schema=RuntimeContext)


def nested(tools: Tools) -> CompiledGraph:
    graph = StateGraph(MessagesState, context_schema=RuntimeContext)
    graph.add_node("inner", plain(tools))
    graph.add_edge(START, "inner")
    return graph.compile()


def deep(tools: Tools) -> CompiledGraph:
    return create_deep_agent(ReadingModel(turns=TURNS), tools.all(), context_schema=RuntimeContext)


def within_a_tool(tools: Tools) -> CompiledGraph:
    """A leader whose expert has the tools."""
    graph = plain(tools)
    expert = GraphFlow(entry_of(graph, "expert").settings, agent_services(), context_of(None), graph)
    asking = delegation_tool("leader", expert)
    turns = [Turn("I ask.", calls=[call(asking.name, "ask", question="Well?")]), Turn("Done.")]
    return create_agent(ReadingModel(turns=turns), tools=[asking], context_schema=RuntimeContext)


@pytest.mark.parametrize("built", [plain, nested, deep])
async def test_of_parallel_tools_only_the_one_that_still_ran_runs_again(
    store: SqliteStore, tmp_path: Path, built: Callable[[Tools], CompiledGraph]
) -> None:
    tools = Tools(tmp_path / "journal")
    first = DrivenRun(store, built(tools))
    await first.run(until=lambda: bool(first.packs))
    assert noted(tools.journal) == ["quick", "slow-began"]
    again = Tools(tools.journal)
    again.may.set()
    second = DrivenRun(store, built(again), "e2", in_a_new_exchange(first.packs[-1]))
    await second.run()
    assert noted(tools.journal) == ["quick", "slow-began", "slow-began", "slow"]
    assert second.told() == ["tool_call: slow(c2)", "tool_result: c2=slowly", "final: Done."]
    check_calls(second.messages)
    assert second.context.run_id == "e1"
    assert again.keys == [tools.keys[1]], "the call that is made again has the same key"
    assert tools.keys[0] != tools.keys[1]


@pytest.mark.parametrize("mode", ["per_call", "batch"])
async def test_an_approval_goes_on_in_the_same_exchange(store: SqliteStore, tmp_path: Path, mode: Any) -> None:
    def asking(tools: Tools) -> CompiledGraph:
        approvals = HumanInTheLoopMiddleware({"slow": True}, **({"interrupt_mode": mode} if mode == "per_call" else {}))
        return create_agent(
            ReadingModel(turns=TURNS), tools=tools.all(), middleware=[approvals], context_schema=RuntimeContext
        )

    tools = Tools(tmp_path / "journal")
    tools.may.set()
    first = DrivenRun(store, asking(tools))
    await first.run()
    assert "slow" not in noted(tools.journal)
    second = DrivenRun(store, asking(tools), "e1", await first.after_the_pause("approve"))
    await second.run()
    assert sorted(noted(tools.journal)) == ["quick", "slow", "slow-began"]
    check_calls(second.messages)
    assert second.told()[:2] == ["observation: Let me see.", "tool_call: quick(c1) slow(c2)"]
    assert sorted(second.told()[2:4]) == ["tool_result: c1=quickly", "tool_result: c2=slowly"]
    assert second.told()[4:] == ["final: Done."]
    parts = [part for message in second.messages for part in message.parts]
    assert [part.name for part in parts if isinstance(part, ToolCallPart)] == ["quick", "slow"]


async def test_a_graph_pauses_again_and_its_texts_are_told_before_each_pause(store: SqliteStore) -> None:
    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"{interrupt('first')} {interrupt('second')}", id="asked")]}

    def graph() -> CompiledGraph:
        inner = StateGraph(MessagesState).add_node("ask", ask).add_edge(START, "ask").compile()
        outer = StateGraph(MessagesState)
        outer.add_node("say", lambda state: {"messages": [AIMessage("Listen.", id="said")]})
        outer.add_node("inner", inner).add_node("end", lambda state: {})
        outer.add_edge(START, "say").add_edge("say", "inner").add_edge("inner", "end")
        return outer.compile()

    run = DrivenRun(store, graph())
    await run.run()
    for answer in ("one", "two"):
        assert run.told() == ["observation: Listen."]
        go_on = await run.after_the_pause(answer=answer)
        run = DrivenRun(store, graph(), "e1", go_on)
        await run.run()
    assert run.told() == ["observation: Listen.", "final: one two"]


async def drained(run: DrivenRun, tools: Tools) -> bytes:
    """Drain the run once its slow tool works; the checkpoint before the step that it did not take."""

    def drain() -> bool:
        if "slow-began" in noted(tools.journal):
            run.graph_run.drain()
            tools.may.set()
        return False

    with pytest.raises(Drained):
        await run.run(until=drain)
    state = await run.graph_run.checkpoint()
    assert state is not None
    return state


@pytest.mark.parametrize("built", [plain, nested, deep])
async def test_a_graph_that_is_drained_stops_before_its_next_step(
    store: SqliteStore, tmp_path: Path, built: Callable[[Tools], CompiledGraph]
) -> None:
    tools = Tools(tmp_path / "journal")
    state = await drained(DrivenRun(store, built(tools)), tools)
    second = DrivenRun(store, built(tools), "e2", in_a_new_exchange(state))
    await second.run()
    assert noted(tools.journal).count("slow") == noted(tools.journal).count("quick") == 1
    assert second.told() == ["final: Done."]


async def test_what_is_no_checkpoint_is_an_error_of_its_own(store: SqliteStore, tmp_path: Path) -> None:
    run = DrivenRun(store, plain(Tools(tmp_path / "journal")), "e2", in_a_new_exchange(b"garbage"))
    with pytest.raises(CheckpointMissing):
        await run.run()


@pytest.mark.parametrize("how", ["cut", "drained"])
async def test_an_expert_goes_on_within_its_leaders_tool(store: SqliteStore, tmp_path: Path, how: str) -> None:
    tools = Tools(tmp_path / "journal")
    first = DrivenRun(store, within_a_tool(tools))
    if how == "cut":
        await first.run(until=lambda: bool(first.packs))
        state = first.packs[-1]
    else:
        state = await drained(first, tools)
    again = Tools(tools.journal)
    again.may.set()
    second = DrivenRun(store, within_a_tool(again), "e2", in_a_new_exchange(state))
    await second.run()
    assert noted(tools.journal).count("quick") == noted(tools.journal).count("slow") == 1
    check_calls(second.messages)
    assert second.told()[0].endswith("(ask)")
    assert second.told()[-2:] == ["tool_result: ask=Done.", "final: Done."]


async def test_what_is_kept_does_not_grow_with_the_steps(store: SqliteStore, tmp_path: Path) -> None:
    async def steps(count: int) -> int:
        class State(MessagesState):
            steps: int

        def step(state: State) -> dict[str, Any]:
            return {"steps": state["steps"] + 1}

        graph = StateGraph(State).add_node("step", step).add_edge(START, "step")
        graph.add_conditional_edges("step", lambda state: "step" if state["steps"] < count else END, ["step", END])
        checkpoints = ExchangeCheckpoints(run_id="e1")
        compiled = graph.compile(checkpointer=checkpoints)
        config: Any = {"configurable": {"thread_id": "e1"}, "recursion_limit": 1000}
        await compiled.ainvoke({"messages": [], "steps": 0}, config, durability="async")
        return len(checkpoints.pack())

    assert await steps(100) < await steps(3) + 100


async def test_every_token_that_came_since_the_run_began_is_its_secret(store: SqliteStore) -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("say", lambda state: {"messages": [AIMessage("Done.")]})
    graph.add_edge(START, "say")
    run = DrivenRun(store, graph.compile())
    for number in range(3):
        run.context.tokens.offer(Tokens(f"wombatfruit-{number}", f"quokkaberry-{number}"))
    given = [f"{name}-{number}" for name in ("wombatfruit", "quokkaberry") for number in range(3)]
    assert set(given) <= set(run.graph_run.secrets)
