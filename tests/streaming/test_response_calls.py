"""Calls without ids, or with ids that repeat, whoever makes them: no call is lost, and each has its own result."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pytest
from graphs.deciding import answer, decide, on, only, requests, waiting
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, ToolMessage
from langchain_core.messages.tool import ToolCall, tool_call_chunk
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, interrupt
from support.chat_client import chat, check_exchange, final_text
from support.further_cases import further
from support.providers.model_server import model_server
from support.providers.reply import Reply, ToolUse
from support.running_server import running_server
from support.turn_model import Turn, TurnModel

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.agents.tools.unfit_calls import NOT_RUN
from agentic_backend.stores.protocol.trail import ToolCallRecord, TrailQuery
from agentic_backend.stores.sqlite import SqliteStore


@tool
def depth(lake: str) -> str:
    """How deep a lake is."""
    return f"{lake}: 217 m"


class Scout(AgentFlow):
    tool_names = ("depth",)

    async def async_init(self) -> None:
        self.graph = create_agent(self.chat_model(), tools=[depth], middleware=self.approval_middleware())

    def get_compiled_graph(self) -> CompiledGraph:
        return self.graph


TEAM = "agentic_backend.experts.team.team_leader:TeamLeader"
ASKED, PASSED_ON, ANSWER = "How deep are they?", "Thun and Brienz?", "Both are 217 m deep."
LAKES = ("Thun", "Brienz")


def numbers_anew(messages: list[dict[str, Any]]) -> Reply:
    """The leader asks the scout, which looks up one lake after the other: each of these calls is `call_0`."""
    question = next(message["content"] for message in messages if message["role"] == "user")
    results = sum(message["role"] == "tool" for message in messages)
    if question == ASKED:
        todo = [("ask_scout", {"question": PASSED_ON})]
    else:
        todo = [("depth", {"lake": lake}) for lake in LAKES]
    if results == len(todo):
        return Reply(ANSWER)
    name, args = todo[results]
    return Reply(calls=[ToolUse("call_0", name, json.dumps(args))])


@pytest.mark.parametrize("approved", [False, True])
async def test_calls_with_one_id_keep_their_results(tmp_path: Path, approved: bool) -> None:
    gate = {"require_approval": ["ask_scout"]} if approved else {}
    agents = [
        {"id": "scout", "class_path": f"{__name__}:Scout"},
        {"id": "chief", "type": "leader", "class_path": TEAM, "crew": ["scout"], **gate},
    ]
    async with model_server() as provider:
        provider.reply = numbers_anew
        options = {"base_url": f"{provider.url}/v1", "api_key": "sk-quokkaberry"}
        settings = {"models": {"default": {"model": "openai:gpt-test", "options": options}}}
        async with (
            running_server(tmp_path, agents=agents, settings=settings) as server,
            chat(server.address) as client,
        ):
            await client.send({"message": ASKED, "agent_id": "chief"})
            if approved:
                asked = await client.until("awaiting_human")
                await client.send(approval(asked))
            final = await client.until("final")
    events = [event for event in client.events if event.get("exchange_id") == final["exchange_id"]]
    check_exchange(events)
    assert final["status"] == "ok" and final_text(events) == ANSWER
    results = {part["call_id"]: part["content"] for part in parts_of(events, "tool_result")}
    calls = [(part["name"], results[part["call_id"]]) for part in parts_of(events, "tool_call")]
    assert calls == [("ask_scout", ANSWER), ("depth", "Thun: 217 m"), ("depth", "Brienz: 217 m")]
    records = await kept_records(server.data)
    assert sorted((record.name, record.state, record.result) for record in records) == [
        ("ask_scout", "success", ANSWER),
        ("depth", "success", "Brienz: 217 m"),
        ("depth", "success", "Thun: 217 m"),
    ]


FIRST, THEN = ("Thun", "Brienz"), ("Sils",)
IDS: dict[str, tuple[list[str | None], list[str | None]]] = {
    "empty": (["", ""], [""]),
    "missing": ([None, None], [None]),
    "repeated": (["0", "0"], ["0"]),
    "counted": (["0", "1"], ["0"]),
}


def turns_of(ids: str) -> list[Turn]:
    first, then = IDS[ids]
    return [
        *(
            Turn(
                calls=[ToolCall(name="depth", args={"lake": lake}, id=id) for lake, id in zip(lakes, own, strict=True)]
            )
            for lakes, own in ((FIRST, first), (THEN, then))
        ),
        Turn(ANSWER),
    ]


def brought(ids: str, **form: Any) -> CompiledGraph:
    """A model that the server has not built."""
    return brought_by(TurnModel(turns=turns_of(ids), **form))


def brought_by(model: TurnModel) -> CompiledGraph:
    return _looping(lambda state: {"messages": [model.invoke(state["messages"])]})


def made(ids: str) -> CompiledGraph:
    """Messages that no model of LangChain's has made."""
    turns = iter(turns_of(ids))

    def speak(state: MessagesState) -> dict[str, Any]:
        turn = next(turns)
        return {"messages": [AIMessage(turn.text, tool_calls=[*turn.calls])]}

    return _looping(speak)


@dataclass
class Told:
    """A state that nodes return whole."""

    messages: Annotated[list[AnyMessage], add_messages] = field(default_factory=list)


def made_as(ids: str, form: Callable[[AIMessage], Any], state: Any = MessagesState) -> CompiledGraph:
    """Such messages in another form than an update of the channel."""
    turns = iter(turns_of(ids))

    def speak(_: Any) -> Any:
        turn = next(turns)
        return form(AIMessage(turn.text, tool_calls=[*turn.calls]))

    return _looping(speak, state)


class Placeless(TurnModel):
    """Streams each call in one piece, and says of none which it is."""

    def _pieces(self, turn: Turn) -> Iterator[AIMessageChunk]:
        yield from super()._pieces(replace(turn, calls=()))
        for one in turn.calls:
            piece = tool_call_chunk(name=one["name"], args=json.dumps(one["args"]), id=one["id"], index=None)
            yield AIMessageChunk("", tool_call_chunks=[piece])


def paused(ids: str) -> CompiledGraph:
    """Made by hand too; a person is asked between the first calls and the last."""
    turns = iter(turns_of(ids))

    def speak(state: MessagesState) -> dict[str, Any]:
        turn = next(turns)
        return {"messages": [AIMessage(turn.text, tool_calls=[*turn.calls])]}

    def ask(state: MessagesState) -> dict[str, Any]:
        if sum(isinstance(message, AIMessage) for message in state["messages"]) == 1:
            interrupt("Go on?")
        return {}

    graph = StateGraph(MessagesState)
    graph.add_node("speak", speak)
    graph.add_node("tools", ToolNode([depth]))
    graph.add_node("ask", ask)
    graph.add_edge(START, "speak")
    graph.add_conditional_edges("speak", tools_condition)
    graph.add_edge("tools", "ask")
    graph.add_edge("ask", "speak")
    return graph.compile()


def _looping(speak: Any, state: Any = MessagesState, tools: Any = None) -> CompiledGraph:
    graph = StateGraph(state)
    graph.add_node("speak", speak)
    graph.add_node("tools", tools or ToolNode([depth]))
    graph.add_edge(START, "speak")
    graph.add_conditional_edges("speak", tools_condition)
    graph.add_edge("tools", "speak")
    return graph.compile()


FORMS: dict[str, Callable[[str], CompiledGraph]] = {
    "streamed": brought,
    "whole": partial(brought, streams=False),
    "blocks": partial(brought, blocks=True),
    "placeless": lambda ids: brought_by(Placeless(turns=turns_of(ids))),
    "made": made,
    "made as a state": lambda ids: made_as(ids, lambda message: Told([message]), Told),
    "made as a command": lambda ids: made_as(ids, lambda message: Command(update={"messages": [message]})),
    "agent": lambda ids: create_agent(TurnModel(turns=turns_of(ids)), [depth]),
}
# The factories that the catalog's entries name.
globals().update(
    {
        f"{form}_{ids}".replace(" ", "_"): partial(make, ids)
        for form, make in [*FORMS.items(), ("paused", paused)]
        for ids in IDS
    }
)


# With the first form all ids; with each other one those that are missing or those that repeat, in turn.
OFTEN = {(form, ["missing", "repeated"][number % 2]) for number, form in enumerate(FORMS)}


@pytest.mark.parametrize(
    ("form", "ids"),
    [
        (form, ids) if form == "streamed" or (form, ids) in OFTEN else further(form, ids)
        for form in FORMS
        for ids in IDS
    ],
)
async def test_each_call_has_its_own_id_and_result_wherever_it_comes_from(tmp_path: Path, form: str, ids: str) -> None:
    agents = [{"id": "scout", "class_path": f"{__name__}:{form}_{ids}".replace(" ", "_")}]
    async with running_server(tmp_path, agents=agents) as server, chat(server.address) as client:
        events = await client.ask(ASKED, agent_id="scout")
    check_exchange(events)
    require_apart(events)
    assert len(await kept_records(server.data)) == len([*FIRST, *THEN])


@pytest.mark.parametrize("ids", IDS)
async def test_a_pause_lets_no_call_vanish(tmp_path: Path, ids: str) -> None:
    agents = [{"id": "scout", "class_path": f"{__name__}:paused_{ids}"}]
    async with running_server(tmp_path, agents=agents) as server, chat(server.address) as client:
        require_apart([await answer(client, await waiting(client, "scout"), "yes")])


def require_apart(events: list[dict[str, Any]]) -> None:
    assert (events[-1]["status"], final_text(events)) == ("ok", ANSWER)
    calls, results = parts_of(events, "tool_call"), parts_of(events, "tool_result")
    assert [call["args"]["lake"] for call in calls] == [*FIRST, *THEN]
    assert len({call["call_id"] for call in calls}) == len(calls) and all(call["call_id"] for call in calls)
    by_id = {result["call_id"]: result["content"] for result in results}
    assert [by_id[call["call_id"]] for call in calls] == [f"{lake}: 217 m" for lake in (*FIRST, *THEN)]


def copying() -> CompiledGraph:
    """Returns a copy of the response under an id of its own, and that again once its call has a result."""
    model = TurnModel(turns=[Turn(calls=[ToolCall(name="depth", args={"lake": "Thun"}, id="0")]), Turn(ANSWER)])

    def speak(state: MessagesState) -> dict[str, Any]:
        said = model.invoke(state["messages"])
        earlier = [message for message in state["messages"] if isinstance(message, AIMessage)]
        return {"messages": [*earlier, AIMessage(said.content, tool_calls=said.tool_calls)]}

    return _looping(speak)


async def test_a_copy_of_a_call_is_no_other_call(tmp_path: Path) -> None:
    agents = [{"id": "scout", "class_path": f"{__name__}:copying"}]
    async with running_server(tmp_path, agents=agents) as server, chat(server.address) as client:
        events = await client.ask(ASKED, agent_id="scout")
    check_exchange(events)
    assert [part["call_id"] for part in parts_of(events, "tool_call")] == ["0"]
    assert [(part["call_id"], part["ok"]) for part in parts_of(events, "tool_result")] == [("0", True)]


CUT = Turn(calls=[ToolCall(name="depth", args={"lake": "Thun"}, id="1")], finish_reason="length")


def chunks_of_its_own() -> CompiledGraph:
    """Adds up what a model streams, and has its calls cut off once."""
    model = TurnModel(turns=[CUT, Turn(ANSWER)])

    async def speak(state: MessagesState) -> dict[str, Any]:
        whole = AIMessageChunk("")
        async for chunk in model.astream(state["messages"]):
            whole += chunk
        return {"messages": [whole]}

    return _looping(speak)


def ending_on_a_call() -> CompiledGraph:
    """Runs no tools."""
    model = TurnModel(turns=[CUT])
    graph = StateGraph(MessagesState)
    graph.add_node("speak", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_edge(START, "speak")
    return graph.compile()


def answering_itself() -> CompiledGraph:
    """Has an answer where the model has none."""
    model = TurnModel(turns=[CUT])
    graph = StateGraph(MessagesState)
    graph.add_node("speak", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("give up", lambda state: {"messages": [AIMessage(ANSWER)]})
    graph.add_edge(START, "speak")
    graph.add_edge("speak", "give up")
    return graph.compile()


def with_examples() -> CompiledGraph:
    """Its prompt has an example of a call."""
    call = ToolCall(name="depth", args={"lake": "Thun"}, id="0")
    example = [AIMessage("", tool_calls=[call]), ToolMessage("217 m", tool_call_id="0")]
    prompt = ChatPromptTemplate.from_messages([*example, ("placeholder", "{messages}")])
    model = TurnModel(turns=[Turn(calls=[call]), Turn(ANSWER)])
    chain = prompt | model
    return _looping(lambda state: {"messages": [chain.invoke({"messages": state["messages"]})]})


async def test_an_example_in_a_prompt_takes_no_id(tmp_path: Path) -> None:
    agents = [{"id": "scout", "class_path": f"{__name__}:with_examples"}]
    async with running_server(tmp_path, agents=agents) as server, chat(server.address) as client:
        events = await client.ask(ASKED, agent_id="scout")
    check_exchange(events)
    assert [part["call_id"] for part in parts_of(events, "tool_call")] == ["0"]


def working_at_once() -> CompiledGraph:
    """Three workers, of which each has its first call cut off."""
    whole = Turn(calls=[ToolCall(name="depth", args={"lake": "Thun"}, id="2")])
    graph = StateGraph(MessagesState)
    for number in range(3):
        graph.add_node(f"worker{number}", create_agent(TurnModel(turns=[CUT, whole, Turn(ANSWER)]), [depth]))
        graph.add_edge(START, f"worker{number}")
    return graph.compile()


async def test_what_workers_come_to_at_once_is_counted_for_each(tmp_path: Path) -> None:
    agents = [{"id": "scout", "class_path": f"{__name__}:working_at_once"}]
    async with running_server(tmp_path, agents=agents) as server, chat(server.address) as client:
        events = await client.ask(ASKED, agent_id="scout")
    check_exchange(events)
    assert events[-1]["status"] == "ok"
    assert sorted(part["ok"] for part in parts_of(events, "tool_result")) == [False] * 3 + [True] * 3


def tool_node_in_code() -> CompiledGraph:
    """A ToolNode that only the code of a node knows."""
    model, tools = TurnModel(turns=[CUT, Turn(ANSWER)]), ToolNode([depth])

    async def run(state: MessagesState) -> Any:
        return await tools.ainvoke(state)

    return _looping(lambda state: {"messages": [model.invoke(state["messages"])]}, tools=run)


@pytest.mark.parametrize(
    ("graph", "status", "results"),
    [
        ("chunks_of_its_own", "ok", [NOT_RUN]),
        ("tool_node_in_code", "ok", [NOT_RUN]),
        ("ending_on_a_call", "error", None),
        ("answering_itself", "ok", None),
    ],
)
async def test_a_cut_call_never_runs_and_no_graph_ends_well_on_it(
    tmp_path: Path, graph: str, status: str, results: list[str] | None
) -> None:
    agents = [{"id": "scout", "class_path": f"{__name__}:{graph}"}]
    async with running_server(tmp_path, agents=agents) as server, chat(server.address) as client:
        events = await client.ask(ASKED, agent_id="scout")
    check_exchange(events)
    assert events[-1]["status"] == status
    if status == "error":
        assert events[-1]["error"]["code"] == "model_error"
    told = parts_of(events, "tool_result")
    assert [part["ok"] for part in told] == [False]
    if results is not None:
        assert [part["content"] for part in told] == results


class Asking(AgentFlow):
    """A model of its own, and tools that a person has to approve of."""

    async def async_init(self) -> None:
        model = TurnModel(turns=turns_of(self.settings.tags[0]))
        self.graph = create_agent(model, tools=[depth], middleware=self.approval_middleware())

    def get_compiled_graph(self) -> CompiledGraph:
        return self.graph


@pytest.mark.parametrize("ids", IDS)
async def test_a_rejection_stands_at_its_own_call(tmp_path: Path, ids: str) -> None:
    entry = {"id": "scout", "class_path": f"{__name__}:Asking", "tags": [ids], "require_approval": ["depth"]}
    async with running_server(tmp_path, agents=[entry]) as server, chat(server.address) as client:
        asked = await waiting(client, "scout")
        kept, refused = requests(asked)
        asked = await decide(client, asked, on(kept, "approve"), on(refused, "reject"))
        final = await decide(client, asked, on(only(asked), "approve"))
    results = {part["call_id"]: part["ok"] for part in parts_of([final], "tool_result")}
    calls = [(part["args"]["lake"], results[part["call_id"]]) for part in parts_of([final], "tool_call")]
    assert calls == [("Thun", True), ("Brienz", False), ("Sils", True)]


def parts_of(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [part for message in events[-1]["messages"] for part in message["parts"] if part["type"] == kind]


def approval(asked: dict[str, Any]) -> dict[str, Any]:
    [request] = asked["payload"]["requests"]
    decision = {"call_id": request["call_id"], "args_sha256": request["args_sha256"], "action": "approve"}
    place = {"session_id": asked["session_id"], "exchange_id": asked["exchange_id"]}
    return {"type": "human_resume", **place, "payload": {"decisions": [decision]}}


async def kept_records(data: Path) -> list[ToolCallRecord]:
    store = await SqliteStore.open(data / "chat.sqlite3", timeout_s=60)
    try:
        return list((await store.trail(TrailQuery(ToolCallRecord))).records)
    finally:
        await store.aclose()
