"""A tested agent runs as a server would run it: its events, its messages, its state, its pauses and its failures."""

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from support.chat_client import check_exchange

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.config.yaml.located_yaml import ConfigError
from agentic_backend.errors import Forbidden
from agentic_backend.testing import (
    AgentRun,
    Approve,
    CatalogProblems,
    Edit,
    Reject,
    ScriptedModel,
    Turn,
    Unanswered,
    User,
    call,
    open_agent,
    run_agent,
)

SENT: list[tuple[str, str]] = []


@pytest.fixture(autouse=True)
def nothing_is_sent() -> None:
    SENT.clear()


@tool
def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    SENT.append((to, text))
    return f"sent to {to}"


class MailAgent(AgentFlow):
    """Sends mails, after a person has approved."""

    tool_names = ("send_mail",)

    async def async_init(self) -> None:
        middleware = [*self.approval_middleware(), self.prompt_middleware()]
        self.graph = create_agent(self.chat_model(), tools=[send_mail], middleware=middleware)

    def system_prompt(self) -> str:
        return "You send mails."

    def get_compiled_graph(self) -> CompiledGraph:
        return self.graph


class Counting(MessagesState):
    asked: int


def counting_graph() -> CompiledGraph:
    def count(state: Counting) -> dict[str, Any]:
        asked = state.get("asked", 0) + 1
        return {"asked": asked, "messages": [AIMessage(f"ask {asked}")]}

    graph = StateGraph(Counting)
    graph.add_node("count", count)
    graph.add_edge(START, "count")
    return graph.compile()


def inquiring_graph() -> CompiledGraph:
    def inquire(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"Hello {interrupt({'question': 'Your name?'})}")]}

    graph = StateGraph(MessagesState)
    graph.add_node("inquire", inquire)
    graph.add_edge(START, "inquire")
    return graph.compile()


def check(run: AgentRun) -> None:
    """The run's events keep the protocol's invariants."""
    check_exchange([event.model_dump(mode="json") for event in run.events])


async def test_the_agent_answers_with_its_tools_and_its_prompt() -> None:
    calls = [call("send_mail", to="ann", text="hi"), call("send_mail", to="bob", text="ho")]
    model = ScriptedModel(Turn(reasoning="Both.", calls=calls, tokens=(7, 2)), Turn("Sent it all.", tokens=(9, 3)))
    run = await run_agent(MailAgent, "Greet both", model=model)
    check(run)
    assert (run.status, run.final_text, run.error) == ("ok", "Sent it all.", None)
    assert run.texts("thought") == ["Both."]
    assert [(use.name, use.args["to"], use.result, use.ok) for use in run.tool_uses] == [
        ("send_mail", "ann", "sent to ann", True),
        ("send_mail", "bob", "sent to bob", True),
    ]
    assert run.tool_called("send_mail", to="bob") and not run.tool_called("send_mail", to="zoe")
    assert (run.usage.input_tokens, run.usage.output_tokens) == (16, 5)
    assert [message.type for message in run.state["messages"]] == ["human", "ai", "tool", "tool", "ai"]
    assert model.asks[0].messages[0].text == "You send mails."
    assert model.asks[0].tools == ["send_mail"] and model.unsaid == 0
    assert sorted(SENT) == [("ann", "hi"), ("bob", "ho")]


@pytest.mark.parametrize("reason", ["length", "content_filter"])
@pytest.mark.parametrize("streams", [True, False])
async def test_the_answer_says_why_the_model_ended(reason: str, streams: bool) -> None:
    run = await run_agent(
        MailAgent, "Go on", model=ScriptedModel(Turn("It was", finish_reason=reason), streams=streams)
    )
    check(run)
    assert (run.status, run.final_text, run.messages[-1].metadata.finish_reason) == ("ok", "It was", reason)
    run = await run_agent(MailAgent, "Go on", model=ScriptedModel("It was a day.", streams=streams))
    assert run.messages[-1].metadata.finish_reason == "stop"


async def test_decisions_are_made_in_code() -> None:
    needs_approval = {"require_approval": ["send_mail"]}
    for answer, status, sent in [
        (Approve(), "ok", [("ann", "hi")]),
        ([Edit({"to": "zoe", "text": "hi"})], "ok", [("zoe", "hi")]),
        (lambda request: Reject(f"no {request.name}"), "ok", []),
    ]:
        SENT.clear()
        model = ScriptedModel(call("send_mail", to="ann", text="hi"), "Done.")
        run = await run_agent(MailAgent, "Greet", model=model, entry=needs_approval, answer=answer)
        check(run)
        assert [request.args for request in run.requests] == [{"to": "ann", "text": "hi"}], run
        assert (run.status, SENT) == (status, sent), run


async def test_a_question_gets_its_answer_and_an_unforeseen_one_fails_the_test() -> None:
    run = await run_agent(inquiring_graph(), "Hello", answer=["Ann"])
    check(run)
    assert run.final_text == "Hello Ann"
    with pytest.raises(Unanswered, match=r"an answer to 'Your name\?', and the test has no answer"):
        await run_agent(inquiring_graph(), "Hello")


async def test_asks_of_one_session_share_its_state() -> None:
    async with open_agent(counting_graph) as agent:
        first, second = await agent.ask("one"), await agent.ask("two")
        query = await agent.ask("three", mode="query")
    assert [run.final_text for run in (first, second, query)] == ["ask 1", "ask 2", "ask 1"]
    assert second.state["asked"] == 2 and query.state == {}
    assert (await run_agent(counting_graph(), ["one", "two"])).final_text == "ask 2"


async def test_a_failure_is_told_with_the_authors_exception() -> None:
    run = await run_agent(MailAgent, "Greet", model=ScriptedModel(ValueError("no such model")))
    check(run)
    assert run.status == "error" and run.error is not None and run.error.detail is not None
    assert (run.error.detail.type, run.error.detail.text) == ("ValueError", "no such model")
    with pytest.raises(AssertionError, match="there is no answer: AgentRun: error\n  user/final: Greet"):
        assert run.final_text


async def test_an_ask_that_takes_too_long_is_told_with_what_has_come() -> None:
    model = ScriptedModel(Turn("Hello", delay_s=600))
    with pytest.raises(TimeoutError, match=r"has not ended within 0\.5 s; events so far: \['Started'"):
        await run_agent(MailAgent, "Greet", model=model, timeout_s=0.5)


async def test_what_is_no_model_is_told() -> None:
    not_a_model: Any = "openai:gpt-5.5"
    with pytest.raises(TypeError, match=r"expected a chat model such as .*, found 'openai:gpt-5\.5'"):
        await run_agent(MailAgent, "Greet", model=not_a_model)


async def test_a_script_that_ends_too_early_says_so() -> None:
    run = await run_agent(MailAgent, "Greet", model=ScriptedModel())
    assert run.error is not None and run.error.detail is not None
    assert "The script has 0 turns, and the model is called once more." in repr(run)


async def test_an_entry_of_a_catalog_is_tested_as_it_stands(tmp_path: Any) -> None:
    catalog = tmp_path / "agents_catalog.yaml"
    catalog.write_text(
        "agents:\n- id: plain\n  class_path: agentic_backend.experts.plain_chat.graph:build\n  model: openai:gpt-5.5\n"
    )
    model = ScriptedModel("Hello")
    assert (await run_agent("plain", "Hi", catalog=catalog, model=model)).final_text == "Hello"
    with pytest.raises(CatalogProblems, match="serves no agent 'other'; there are: plain"):
        await run_agent("other", "Hi", catalog=catalog, model=model)


async def test_an_entry_is_checked_as_in_a_catalog() -> None:
    for entry, reason in [
        ({"tool": ["current_time"]}, "unknown key 'tool'"),
        ({"require_approval": ["send_mail"]}, "only an AgentFlow class can ask for approval"),
    ]:
        with pytest.raises(ConfigError, match=reason):
            await run_agent(counting_graph(), "Hello", entry=entry)


async def test_who_may_not_use_the_agent_is_refused() -> None:
    entry = {"access": {"roles": ["staff"]}}
    async with open_agent(counting_graph, entry=entry) as agent:
        with pytest.raises(Forbidden):
            await agent.ask("Hello", user="ann")
        staff = User("bob", "Bob", roles=frozenset({"staff"}))
        assert (await agent.ask("Hello", user=staff)).final_text == "ask 1"
