"""Models and agents beside and within each other: interleaved tokens, subgraphs, handoffs, and what parents repeat."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from support.drafts import Namespace, Transcript, ai, result, token, update

from agentic_backend.agents.agent_flow import StreamPart
from agentic_backend.protocol.messages import Channel
from agentic_backend.streaming.transcode.drafts import ActivityDraft, TextDraft

INNER: Namespace = ("worker:1",)
INMOST: Namespace = ("worker:1", "helper:2")


def test_two_models_that_speak_at_the_same_time_have_a_block_each() -> None:
    transcript = Transcript(
        token("One ", "m1", node="a"),
        token("Two ", "m2", node="b"),
        token("uno", "m1", node="a", last=True),
        token("due", "m2", node="b", last=True),
        update(ai("Two due", "m2"), node="b"),
        update(ai("One uno", "m1"), node="a"),
    )
    assert transcript.drafts[:4] == [
        TextDraft(0, Channel.FINAL, "One "),
        TextDraft(1, Channel.FINAL, "Two "),
        TextDraft(0, Channel.FINAL, "uno"),
        TextDraft(1, Channel.FINAL, "due"),
    ]
    assert transcript.finish().told == [("observation", "One uno"), ("final", "Two due")]


def test_a_models_ids_may_change_within_its_call() -> None:
    """OpenAI's Responses API names a message in its first chunk only; LangChain fills in its own id from then on."""

    def said(text: str, message_id: str, last: bool = False) -> StreamPart:
        within, mode, (chunk, metadata) = token(text, message_id, last=last)
        return within, mode, (chunk, {**metadata, "run_id": "run-1"})

    parts = [said("", "resp_1"), said("Hel", "lc_run--1"), said("lo", "lc_run--1", last=True)]
    transcript = Transcript(*parts, update(ai("Hello", "resp_1"))).finish()
    assert transcript.told == [("final", "Hello")]
    assert transcript.feed(said("late", "lc_run--1")) == []


def test_messages_without_an_id_do_not_hide_those_after_them() -> None:
    transcript = Transcript(
        token("One", None, last=True), update(ai("One", None)), token("Two", None, last=True), update(ai("Two", None))
    ).finish()
    assert transcript.told == [("observation", "One"), ("final", "Two")]


def test_a_model_may_use_an_id_again() -> None:
    transcript = Transcript()
    for run, text in enumerate(["One", "Two"]):
        within, mode, (chunk, metadata) = token(text, "same", last=True)
        transcript.feed((within, mode, (chunk, {**metadata, "run_id": run})))
        transcript.feed(update(ai(text, "same")))
    assert transcript.finish().told == [("observation", "One"), ("final", "Two")]


def test_what_a_subgraph_says_is_an_observation_while_it_is_written() -> None:
    transcript = Transcript(token("Inner", within=INNER))
    assert transcript.drafts[-1] == TextDraft(0, Channel.OBSERVATION, "Inner")


def test_the_answer_of_a_subgraph_is_the_final_where_its_parent_adds_nothing() -> None:
    transcript = Transcript(
        token("Inner", last=True, within=INMOST),
        update(ai("Inner"), within=INMOST),
        update(ai("Inner"), within=INNER),
        update(ai("Inner"), node="worker"),
    ).finish()
    assert transcript.told == [("final", "Inner")]


def test_a_switch_tells_who_speaks() -> None:
    transcript = Transcript(
        token("a", "m1"),
        token("b", "m2", within=INNER),
        token("c", "m3", within=("other:1",)),
        token("d", "m4", within=("other:1",)),
        token("e", "m5"),
    )
    assert transcript.activities == [
        ActivityDraft("agent_switch", {"from": "agent", "to": "worker"}),
        ActivityDraft("agent_switch", {"from": "worker", "to": "other"}),
        ActivityDraft("agent_switch", {"from": "other", "to": "agent"}),
    ]


def test_an_agent_with_a_name_is_switched_to_by_it() -> None:
    within, mode, (chunk, metadata) = token("a", within=INNER)
    transcript = Transcript((within, mode, (chunk, {**metadata, "lc_agent_name": "researcher"})))
    assert transcript.activities == [ActivityDraft("agent_switch", {"from": "agent", "to": "researcher"})]


@pytest.mark.parametrize(
    ("tool", "to"), [("transfer_to_alice", "alice"), ("transfer_back_to_supervisor", "supervisor")]
)
def test_a_handoff_whose_result_comes_with_the_parents_update(tool: str, to: str) -> None:
    """The tool's node hands over nothing itself: its Command goes to the parent."""
    calling = ai("", "m1", ("c1", tool))
    transcript = Transcript(
        token(message_id="m1", calls=[("c1", tool, "{}")], last=True, within=("bob:1",)),
        update(calling, within=("bob:1",)),
        ((), "updates", {"bob": {"messages": [HumanMessage("Hi", id="h1"), calling, result("c1", "Transferred")]}}),
        update(ai("Hello from the other", "m2"), within=(f"{to}:1",)),
    ).finish()
    assert transcript.told == [
        ("tool_call", f"{tool}(c1)"),
        ("tool_result", "c1=Transferred"),
        ("final", "Hello from the other"),
    ]
    assert transcript.activities[-1] == ActivityDraft("handoff", {"from": "bob", "to": to})


def test_a_handoff_that_failed_is_none() -> None:
    transcript = Transcript(update(ai("", "m1", ("c1", "transfer_to_alice"))), update(result("c1", status="error")))
    assert transcript.activities == []


def test_a_tool_that_transfers_money_is_no_handoff() -> None:
    transcript = Transcript(update(ai("", "m1", ("c1", "transfer_funds"))), update(result("c1")))
    assert transcript.activities == []


def test_a_result_of_an_earlier_exchange_does_not_answer_a_call_of_this_one() -> None:
    """A handoff hands all messages to the parent, and a model may use the ids of its calls again."""
    earlier = [HumanMessage("Hi", id="e:0"), ai("", "e:1", ("c1", "a")), result("c1", "old")]
    transcript = Transcript(
        update(ai("", "m1", ("c1", "a")), within=INNER),
        update(*earlier, ai("", "m1", ("c1", "a")), node="worker"),
        update(result("c1", "new").model_copy(update={"id": "r2"}), node="tools"),
        history=earlier,
    ).finish()
    assert transcript.told == [("tool_call", "a(c1)"), ("tool_result", "c1=new"), ("final", "new")]


@pytest.mark.parametrize("named", [True, False])
def test_a_parents_update_that_repeats_its_subgraph_adds_nothing(named: bool) -> None:
    """With a plain list as its channel, a graph gives its messages no ids; `add_messages` does, but later."""
    within = [ai("Look", None, ("c1", "a")), result("c1").model_copy(update={"id": None}), ai("Found", None)]
    repeated = [
        message.model_copy(update={"id": f"x{place}" if named else None}) for place, message in enumerate(within)
    ]
    transcript = Transcript(
        update(*within[:1], within=INMOST),
        update(*within[1:2], within=INMOST, node="tools"),
        update(*within[2:], within=INMOST),
        update(*repeated, within=INNER),
        update(*repeated, node="worker"),
    ).finish()
    assert transcript.told == [
        ("observation", "Look"),
        ("tool_call", "a(c1)"),
        ("tool_result", "c1=done"),
        ("final", "Found"),
    ]


def test_a_node_that_answers_with_a_copy_of_its_agents_answer_adds_nothing() -> None:
    transcript = Transcript(
        token("Inner", last=True, within=INNER),
        update(ai("Inner"), within=INNER),
        update(copy := AIMessage("Inner", name="worker", id="c1"), node="worker"),
        update(copy, node="summary"),
    ).finish()
    assert transcript.told == [("final", "Inner")]


def test_an_agent_that_says_again_what_it_said_has_said_it_twice() -> None:
    transcript = Transcript(update(ai("Yes", None)), update(ai("Yes", None), node="other")).finish()
    assert transcript.told == [("observation", "Yes"), ("final", "Yes")]


def test_tokens_that_come_after_their_message_add_nothing() -> None:
    transcript = Transcript(token("Hello", last=True), update(ai("Hello")))
    assert transcript.feed(token("late")) == []
