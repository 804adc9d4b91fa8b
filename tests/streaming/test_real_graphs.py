"""Graphs run by LangGraph itself, with a scripted model: what their streams become."""

import asyncio
import operator
from typing import Annotated, Any, Literal, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, PIIMiddleware
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import BaseTool, ToolException, tool
from langgraph.config import get_stream_writer
from langgraph.func import task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Send, interrupt
from support.drafts import Transcript
from support.transcribed import ASKED, transcribe
from support.turn_model import Gate, Turn, TurnModel, call

from agentic_backend.protocol.messages import FinishReason
from agentic_backend.protocol.parts import ToolResultPart
from agentic_backend.streaming.transcode.drafts import ActivityDraft, CompleteDraft, TextDraft


@tool
def search(word: str) -> str:
    """Looks a word up."""
    get_stream_writer()({"searching": word})
    return f"{word} is a word"


@tool
async def add(a: int, b: int) -> str:
    """Adds."""
    return str(a + b)


@tool
def fail() -> str:
    """Fails."""
    raise ToolException("it broke")


fail.handle_tool_error = True

TWO_CALLS = [call("search", "c1", word="cat"), call("add", "c2", a=2, b=3)]


def chain(*nodes: Any, state: Any = MessagesState) -> Any:
    """A compiled graph of nodes one after the other, named node0, node1, …"""
    graph = StateGraph(state)
    for place, node in enumerate(nodes):
        graph.add_node(f"node{place}", node)
        graph.add_edge(f"node{place - 1}" if place else START, f"node{place}")
    return graph.compile()


def saying(model: TurnModel) -> Any:
    async def say(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    return say


@pytest.mark.parametrize("streams", [True, False], ids=["streams", "whole"])
@pytest.mark.parametrize("blocks", [True, False], ids=["blocks", "text"])
@pytest.mark.parametrize("own_ids", ["none", "first", "all"])
async def test_an_agent_with_parallel_tools(
    own_ids: Literal["none", "first", "all"], blocks: bool, streams: bool
) -> None:
    model = TurnModel(
        turns=[
            Turn("Let me look.", "Two things at once.", TWO_CALLS, (10, 5), "tool_calls"),
            Turn("A cat, and five.", tokens=(20, 7), finish_reason="stop"),
        ],
        own_ids=own_ids,
        blocks=blocks,
        streams=streams,
    )
    transcript = (await transcribe(create_agent(model, [search, add]))).finish()
    told = transcript.told
    assert told[:3] == [
        ("thought", "Two things at once."),
        ("observation", "Let me look."),
        ("tool_call", "search(c1) add(c2)"),
    ]
    assert sorted(told[3:5]) == [("tool_result", "c1=cat is a word"), ("tool_result", "c2=5")]
    assert told[5:] == [("final", "A cat, and five.")]
    assert transcript.activities == [ActivityDraft("progress", {"searching": "cat"})]
    assert transcript.transcoder.usage.model_dump() == {"input_tokens": 30, "output_tokens": 12, "total_tokens": 42}
    assert transcript.final.metadata.finish_reason is FinishReason.STOP
    assert transcript.final.metadata.model == "turns"
    shown = [draft.text for draft in transcript.drafts if isinstance(draft, TextDraft)]
    assert len(shown) == (11 if streams else 3)


async def test_a_tool_that_raises_and_handles_it_has_a_failed_result() -> None:
    model = TurnModel(turns=[Turn(calls=[call("fail", "c1")]), Turn("Alas.")])
    transcript = (await transcribe(create_agent(model, [fail]))).finish()
    assert transcript.told == [("tool_call", "fail(c1)"), ("tool_result", "c1=it broke!"), ("final", "Alas.")]
    results = [part for message in transcript.messages for part in message.parts if isinstance(part, ToolResultPart)]
    assert [result.ok for result in results] == [False]


async def test_a_tool_that_raises_ends_the_run_and_its_call_gets_a_result() -> None:
    @tool
    def burst() -> str:
        """Bursts."""
        raise ValueError("no")

    transcript = Transcript(history=[ASKED])
    model = TurnModel(turns=[Turn("Let me see.", calls=[call("burst", "c1")])])
    with pytest.raises(ValueError, match="no"):
        await transcribe(create_agent(model, [burst]), transcript)
    transcript.close(FinishReason.OTHER)
    assert transcript.told == [
        ("observation", "Let me see."),
        ("tool_call", "burst(c1)"),
        ("tool_result", "c1=Stopped.!"),
    ]


async def test_an_agent_that_ends_on_its_tools_result() -> None:
    @tool(return_direct=True)
    def answer() -> str:
        """Answers."""
        return "forty-two"

    model = TurnModel(turns=[Turn("I know.", calls=[call("answer", "c1")])])
    transcript = (await transcribe(create_agent(model, [answer]))).finish()
    assert transcript.told[-2:] == [("tool_result", "c1=forty-two"), ("final", "forty-two")]


async def test_two_models_in_parallel_nodes() -> None:
    slow, fast = Gate(at=3), Gate(at=4)
    graph = StateGraph(MessagesState)
    graph.add_node("slow", saying(TurnModel(turns=[Turn("one two three")], gate=slow)))
    graph.add_node("fast", saying(TurnModel(turns=[Turn("uno due tre")], gate=fast)))
    graph.add_edge(START, "slow")
    graph.add_edge(START, "fast")
    transcript = Transcript(history=[ASKED])
    run = asyncio.create_task(transcribe(graph.compile(), transcript))
    # Both are in the middle of their text when they are let go on.
    while len(transcript.drafts) < 5:
        await asyncio.sleep(0.001)
    fast.opened.set()
    slow.opened.set()
    await run
    blocks = [draft.block for draft in transcript.drafts if isinstance(draft, TextDraft)]
    assert sorted(blocks) == [0, 0, 0, 1, 1, 1]
    assert blocks != sorted(blocks)
    assert sorted(text for _, text in transcript.finish().told) == ["one two three", "uno due tre"]


async def test_tasks_of_one_node_that_run_at_the_same_time() -> None:
    models = [TurnModel(turns=[Turn(f"part {number}")]) for number in range(4)]

    async def work(state: dict[str, Any]) -> dict[str, Any]:
        return {"messages": [await models[state["number"]].ainvoke([ASKED])]}

    graph = StateGraph(MessagesState)
    graph.add_node("work", work)
    graph.add_conditional_edges(START, lambda _: [Send("work", {"number": number}) for number in range(4)], ["work"])
    transcript = (await transcribe(graph.compile())).finish()
    assert sorted(text for _, text in transcript.told) == ["part 0", "part 1", "part 2", "part 3"]


@pytest.mark.parametrize("streams", [True, False], ids=["streams", "whole"])
async def test_an_agent_two_subgraphs_deep(streams: bool) -> None:
    turns = [Turn("Looking.", calls=[call("add", "c1", a=1, b=1)]), Turn("Two.")]
    agent = create_agent(TurnModel(turns=turns, streams=streams), [add], name="adder")
    transcript = (await transcribe(chain(chain(agent)))).finish()
    assert transcript.told == [
        ("observation", "Looking."),
        ("tool_call", "add(c1)"),
        ("tool_result", "c1=2"),
        ("final", "Two."),
    ]
    assert transcript.activities == [ActivityDraft("agent_switch", {"from": "agent", "to": "adder"})]
    assert {draft.channel for draft in transcript.drafts if isinstance(draft, TextDraft)} == {"observation"}


async def test_messages_without_ids_two_subgraphs_deep() -> None:
    async def say(state: MessagesState) -> dict[str, Any]:
        return {"messages": [{"role": "assistant", "content": "One."}, ("ai", "Two."), AIMessage("Three.")]}

    transcript = (await transcribe(chain(chain(chain(say))))).finish()
    assert transcript.told == [("observation", "One."), ("observation", "Two."), ("final", "Three.")]


async def test_a_list_that_adds_nothing_to_its_messages() -> None:
    """Without `add_messages` no message ever gets an id, and a subgraph's update holds what it was given as well."""

    class Plain(TypedDict):
        messages: Annotated[list[BaseMessage], operator.add]

    async def say(state: Plain) -> dict[str, Any]:
        return {"messages": [AIMessage("Once.")]}

    transcript = (await transcribe(chain(chain(say, state=Plain), state=Plain))).finish()
    assert transcript.told == [("final", "Once.")]


async def test_a_node_that_copies_its_models_text_into_a_new_message() -> None:
    model = TurnModel(turns=[Turn("Hello there.", tokens=(3, 4))])

    async def say(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage((await model.ainvoke(state["messages"])).text, name="copy")]}

    transcript = (await transcribe(chain(say))).finish()
    assert transcript.told == [("final", "Hello there.")]
    assert transcript.transcoder.usage.total_tokens == 7
    assert [draft.block for draft in transcript.drafts if isinstance(draft, CompleteDraft)] == [0]


async def test_a_node_that_answers_with_its_agents_text() -> None:
    agent = create_agent(TurnModel(turns=[Turn("From within.")]), [])

    async def ask_agent(state: MessagesState) -> dict[str, Any]:
        answered = await agent.ainvoke({"messages": state["messages"]})
        return {"messages": [AIMessage(answered["messages"][-1].text)]}

    transcript = (await transcribe(chain(ask_agent))).finish()
    assert transcript.told == [("final", "From within.")]


async def test_a_node_that_answers_with_its_agents_text_in_a_persons_name() -> None:
    agent = create_agent(TurnModel(turns=[Turn("From within.")]), [])

    async def ask_agent(state: MessagesState) -> dict[str, Any]:
        answered = await agent.ainvoke({"messages": state["messages"]})
        return {"messages": [HumanMessage(answered["messages"][-1].text, name="researcher")]}

    transcript = (await transcribe(chain(ask_agent))).finish()
    assert transcript.told == [("final", "From within.")]


@pytest.mark.parametrize("streams", [True, False], ids=["streams", "whole"])
async def test_a_router_and_a_judge_whose_messages_nobody_keeps(streams: bool) -> None:
    router = TurnModel(turns=[Turn(calls=[call("route", "r1", to="sales")], tokens=(1, 1))], streams=streams)
    judge = TurnModel(turns=[Turn('{"pass": true}', tokens=(1, 1))], streams=streams)

    def asking(model: TurnModel) -> Any:
        async def ask(state: MessagesState) -> None:
            await model.ainvoke(state["messages"])

        return ask

    answer = saying(TurnModel(turns=[Turn("We sell.", tokens=(1, 1))], streams=streams))
    transcript = (await transcribe(chain(asking(router), answer, asking(judge)))).finish()
    assert transcript.told == [("observation", '{"pass": true}'), ("final", "We sell.")]
    assert transcript.transcoder.usage.total_tokens == 6


async def test_a_model_that_is_tagged_nostream_stays_unseen() -> None:
    hidden = TurnModel(turns=[Turn("secret")]).with_config(tags=["nostream"])

    async def think(state: MessagesState) -> None:
        await hidden.ainvoke(state["messages"])

    transcript = (await transcribe(chain(think, saying(TurnModel(turns=[Turn("Hello.")]))))).finish()
    assert transcript.told == [("final", "Hello.")]


async def test_a_node_without_an_async_form_streams_too() -> None:
    model = TurnModel(turns=[Turn("From a thread.")])

    def say(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    transcript = (await transcribe(chain(say))).finish()
    assert transcript.told == [("final", "From a thread.")]
    assert [draft.text for draft in transcript.drafts if isinstance(draft, TextDraft)] == ["From ", "a ", "thread."]


async def test_a_model_within_a_task_speaks_for_the_root_graph() -> None:
    model = TurnModel(turns=[Turn("From a task.")])

    @task
    async def say(messages: list[BaseMessage]) -> BaseMessage:
        return await model.ainvoke(messages)

    async def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await say(state["messages"])]}

    transcript = (await transcribe(chain(answer))).finish()
    assert transcript.told == [("final", "From a task.")]
    assert transcript.activities == []
    assert {draft.channel for draft in transcript.drafts if isinstance(draft, TextDraft)} == {"final"}


async def test_a_model_that_fails_half_way_and_the_one_that_steps_in() -> None:
    broken = TurnModel(turns=[Turn("Half a", error=ConnectionError("gone"))])
    model = broken.with_fallbacks([TurnModel(turns=[Turn("The whole answer.")])])

    async def say(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    transcript = (await transcribe(chain(say))).finish()
    assert transcript.told == [("observation", "Half a"), ("final", "The whole answer.")]


async def test_a_model_that_fails_half_way_leaves_what_it_said() -> None:
    broken = TurnModel(turns=[Turn("Half a", "Hmm.", error=ConnectionError("gone"))])
    transcript = Transcript(history=[ASKED])
    with pytest.raises(ConnectionError):
        await transcribe(create_agent(broken, []), transcript)
    assert transcript.close(FinishReason.OTHER).told == [("thought", "Hmm."), ("final", "Half a")]


async def test_a_sub_agent_within_a_tool() -> None:
    inner: BaseTool

    worker = create_agent(TurnModel(turns=[Turn("I found it.")]), [], name="worker")

    @tool("delegate")
    async def inner(job: str) -> str:
        """Gives a job to the worker."""
        answered = await worker.ainvoke({"messages": [HumanMessage(job)]})
        return str(answered["messages"][-1].text)

    model = TurnModel(turns=[Turn(calls=[call("delegate", "c1", job="find")]), Turn("Here it is.")])
    transcript = (await transcribe(create_agent(model, [inner]))).finish()
    assert transcript.told == [
        ("tool_call", "delegate(c1)"),
        ("observation", "I found it."),
        ("tool_result", "c1=I found it."),
        ("final", "Here it is."),
    ]
    assert [(activity.data["from"], activity.data["to"]) for activity in transcript.activities] == [
        ("agent", "worker"),
        ("worker", "agent"),
    ]


async def test_an_agent_stopped_while_its_tool_runs() -> None:
    running = asyncio.Event()

    @tool
    async def hang() -> str:
        """Hangs."""
        running.set()
        await asyncio.Event().wait()
        return "never"

    transcript = Transcript(history=[ASKED])
    model = TurnModel(turns=[Turn("Wait.", calls=[call("hang", "c1"), call("add", "c2", a=1, b=1)])])
    run = asyncio.create_task(transcribe(create_agent(model, [hang, add]), transcript))
    await running.wait()
    while not any(channel == "tool_result" for channel, _ in transcript.told):
        await asyncio.sleep(0.001)
    run.cancel()
    await asyncio.wait({run})
    assert transcript.close().told == [
        ("observation", "Wait."),
        ("tool_call", "hang(c1) add(c2)"),
        ("tool_result", "c2=2"),
        ("tool_result", "c1=Stopped.!"),
    ]


async def test_calls_that_need_an_approval_wait_for_it() -> None:
    approval = HumanInTheLoopMiddleware({"add": True, "search": {"allowed_decisions": ["approve", "reject"]}})
    model = TurnModel(turns=[Turn("May I?", calls=TWO_CALLS)])
    transcript = await transcribe(create_agent(model, [search, add], middleware=[approval]))
    waiting = transcript.transcoder.waiting
    assert waiting is not None
    assert [(request.name, request.args) for request in waiting.requests] == [
        ("search", {"word": "cat"}),
        ("add", {"a": 2, "b": 3}),
    ]
    assert waiting.requests[0].allowed == ["approve", "reject"]
    assert transcript.told == [("observation", "May I?"), ("tool_call", "search(c1) add(c2)")]


async def test_questions_of_parallel_nodes_wait_together() -> None:
    def asking(question: str) -> Any:
        def ask(state: MessagesState) -> dict[str, Any]:
            return {"messages": [AIMessage(interrupt({"question": question}))]}

        return ask

    graph = StateGraph(MessagesState)
    graph.add_node("left", chain(asking("Left?")))
    graph.add_node("right", asking("Right?"))
    graph.add_edge(START, "left")
    graph.add_edge(START, "right")
    transcript = await transcribe(graph.compile())
    assert transcript.transcoder.waiting is not None
    assert sorted(str(request.question) for request in transcript.transcoder.waiting.requests) == ["Left?", "Right?"]


async def test_what_a_middleware_masks_is_masked_in_the_final() -> None:
    model = TurnModel(turns=[Turn("Write to ann@example.org.")])
    masking = PIIMiddleware("email", apply_to_output=True, apply_to_input=False)
    transcript = await transcribe(create_agent(model, [], middleware=[masking]))
    [final] = transcript.transcoder.finish(9.0)
    assert isinstance(final, CompleteDraft)
    assert final.block == 0
    assert "ann@example.org" not in repr(final.message)
