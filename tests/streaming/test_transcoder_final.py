"""Which text is the final: the last that a node handed over, else the last that was said, else the last message's."""

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, SystemMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from support.drafts import Transcript, ai, result, token, update

from agentic_backend.agents.agent_flow import StreamPart
from agentic_backend.agents.parts import EmittedParts
from agentic_backend.protocol.messages import Channel, FinishReason
from agentic_backend.protocol.parts import LinkPart, TextPart, text_of
from agentic_backend.streaming.transcode.drafts import CompleteDraft


def test_of_several_texts_the_last_is_the_final() -> None:
    transcript = Transcript(update(ai("First", "m1")), update(ai("Second", "m2")), update(ai("Third", "m3"))).finish()
    assert transcript.told == [("observation", "First"), ("observation", "Second"), ("final", "Third")]


def test_a_text_is_held_back_until_a_later_one_is_complete() -> None:
    transcript = Transcript(update(ai("First", "m1")))
    assert transcript.drafts == []
    transcript.feed(token("Second", "m2"))
    assert transcript.told == []
    transcript.feed(update(ai("Second", "m2")))
    assert transcript.told == [("observation", "First")]


def test_calls_let_go_of_the_text_before_them() -> None:
    transcript = Transcript(update(ai("First", "m1")), update(ai("", "m2", ("c1", "a"))))
    assert transcript.told == [("observation", "First"), ("tool_call", "a(c1)")]


def test_a_graph_that_ends_on_a_tool_result_repeats_it() -> None:
    transcript = Transcript(update(ai("Looking", "m1", ("c1", "a"))), update(result("c1", "42"), node="tools")).finish()
    assert transcript.told[-2:] == [("tool_result", "c1=42"), ("final", "42")]


def test_a_graph_that_ends_on_a_result_nobody_asked_for_repeats_it() -> None:
    assert Transcript(update(result("c1", "42"))).finish().told == [("final", "42")]


def test_a_graph_that_ends_on_the_report_of_an_agent_repeats_it() -> None:
    report = HumanMessage("That is all", id="h9", name="researcher")
    transcript = Transcript(update(report), history=[HumanMessage("Hi", id="h1")]).finish()
    assert transcript.told == [("final", "That is all")]


@pytest.mark.parametrize("prompt", [HumanMessage("You know all", id="h9"), SystemMessage("You know all", id="s1")])
def test_what_a_graph_adds_for_its_model_is_never_repeated(prompt: BaseMessage) -> None:
    history = [HumanMessage("Hi", id="h1")]
    assert Transcript(update(prompt), history=history).finish().told == [("final", "")]
    assert Transcript(update(result("c1", "42")), update(prompt)).finish().told == [("final", "42")]


def emitted(text: str) -> StreamPart:
    return (
        ("agent:1",),
        "custom",
        EmittedParts([LinkPart(href=f"https://example.org/{text}", kind="view")], 30, "answer"),
    )


@pytest.mark.parametrize("text", ["Here it is", "There it was"])
def test_what_a_graph_emits_stays_with_its_answer_when_it_is_handed_over_again(text: str) -> None:
    transcript = Transcript(
        token("Here it", within=("agent:1",)),
        emitted("beside"),
        token(" is", within=("agent:1",), last=True),
        update(ai("Here it is"), within=("agent:1",)),
        emitted("after"),
        update(ai(text), node="agent"),
        emitted("later"),
        update(ai(text), node="tidy"),
    )
    [*_, final] = transcript.transcoder.finish(9.0)
    assert isinstance(final, CompleteDraft)
    said, *shown = final.message.parts
    assert said == TextPart(text=text)
    assert [part.href.rsplit("/", 1)[1] for part in shown if isinstance(part, LinkPart)] == ["beside", "after", "later"]


@pytest.mark.parametrize("added", [None, {"messages": [HumanMessage("Again", id="h9")]}])
def test_a_graph_that_says_nothing_of_its_own_never_repeats_the_person(added: object) -> None:
    history = [HumanMessage("Hi", id="h1"), AIMessage("Hello", id="a1"), HumanMessage("Again", id="h2")]
    transcript = Transcript(((), "updates", {"node": added}), history=history).finish()
    assert transcript.told == [("final", "")]
    assert transcript.final.metadata.finish_reason is FinishReason.OTHER
    assert transcript.transcoder.said_nothing
    assert list(transcript.transcoder.nodes) == ["node"]


HISTORY = [HumanMessage("Hi", id="h1"), ai("Hello", "a1"), HumanMessage("Again", id="h2")]


@pytest.mark.parametrize(
    ("updates", "said"),
    [
        ([update(ai("Again!", "a1"))], "Again!"),
        ([update(ai("Wait.", "a1")), update(ai("Again!", "a1"))], "Again!"),
        ([update(ai("Hello (edited)", "a1")), update(ai("Yes", "m1"))], "Yes"),
        ([update(ai("Yes", "m1")), update(ai("Hello (edited)", "a1"))], "Yes"),
        ([update(ai("Hello", "a1"))], ""),
    ],
)
def test_an_answer_with_the_id_of_an_earlier_one_is_shown_unless_there_is_another(
    updates: list[StreamPart], said: str
) -> None:
    assert Transcript(*updates, history=HISTORY).finish().told == [("final", said)]


def test_messages_of_the_history_that_are_handed_over_again_are_not_news() -> None:
    history = [HumanMessage("Hi", id="h1"), ai("Hello", "a1"), HumanMessage("Again", id="h2")]
    transcript = Transcript(update(ai("Yes", "m1")), update(*history, ai("Yes", "m1"), node="parent"), history=history)
    assert transcript.finish().told == [("final", "Yes")]


@pytest.mark.parametrize("removed", ["h1", "other", REMOVE_ALL_MESSAGES])
def test_removed_messages_have_no_text(removed: str) -> None:
    transcript = Transcript(update(RemoveMessage(id=removed)), history=[HumanMessage("Hi", id="h1")]).finish()
    assert transcript.told == [("final", "")]


def test_what_a_parent_repeats_is_not_the_last_message_again() -> None:
    told = HumanMessage("Noted", id="n1")
    transcript = Transcript(
        update(told, within=("a:1",)), update(result("c1", "42"), within=("a:1",)), update(told, node="a")
    ).finish()
    assert transcript.told == [("final", "42")]


def test_a_model_that_says_nothing_leaves_the_text_before_it_as_the_final() -> None:
    """A supervisor may end with an empty message, when its worker has said all."""
    transcript = Transcript(
        update(ai("It is 4.", "m1")),
        update(ai("Transferring back", "m2", ("c1", "transfer_back_to_boss")), result("c1", "Transferred"), node="w"),
        token(message_id="m3", last=True),
        update(ai("", "m3")),
    ).finish()
    assert transcript.told == [
        ("observation", "It is 4."),
        ("observation", "Transferring back"),
        ("tool_call", "transfer_back_to_boss(c1)"),
        ("tool_result", "c1=Transferred"),
        ("final", "It is 4."),
    ]


def test_a_model_that_says_nothing_at_all_leaves_an_empty_final_and_not_the_question() -> None:
    transcript = Transcript(token(last=True), update(ai("")), history=[HumanMessage("Hi", id="h1")]).finish()
    assert transcript.told == [("final", "")]


def test_what_no_node_hands_over_is_stored_before_the_answer() -> None:
    """A router's text is seen, so it is stored; its call is run by nobody, so it is none."""
    transcript = Transcript(
        token("billing", "router", calls=[("r1", "route", "{}")], last=True, node="router"),
        update(node="router"),
        token("Your bill", "m1", last=True),
        update(ai("Your bill", "m1")),
    ).finish()
    assert transcript.told == [("observation", "billing"), ("final", "Your bill")]


def test_a_judge_after_the_answer_does_not_take_its_place() -> None:
    transcript = Transcript(
        token("Your bill", "m1", last=True),
        update(ai("Your bill", "m1")),
        token('{"pass": true}', "judge", last=True, node="judge"),
        update(node="judge"),
    ).finish()
    assert transcript.told == [("observation", '{"pass": true}'), ("final", "Your bill")]


def test_a_router_that_only_calls_after_the_answer_changes_nothing() -> None:
    transcript = Transcript(
        token("Your bill", "m1", last=True),
        update(ai("Your bill", "m1")),
        token(message_id="judge", calls=[("j1", "verdict", "{}")], last=True, node="judge"),
        update(node="judge"),
    ).finish()
    assert transcript.told == [("final", "Your bill")]


def test_a_router_that_does_not_stream_calls_nothing_either() -> None:
    whole = ((), "messages", (ai("", "router", ("r1", "route")), {"langgraph_node": "router"}))
    transcript = Transcript(whole, update(node="router"), update(ai("Your bill", "m1"))).finish()
    assert transcript.told == [("final", "Your bill")]


def test_where_no_text_is_handed_over_the_last_is_the_final() -> None:
    """A node that drafts and refines may keep both texts in channels of its own."""
    transcript = Transcript(
        token("Draft", "m1", last=True), token("Refined", "m2", last=True), ((), "updates", {"model": {"essay": "…"}})
    ).finish()
    assert transcript.told == [("observation", "Draft"), ("final", "Refined")]


def test_where_no_update_comes_the_last_text_is_the_final() -> None:
    transcript = Transcript(token("One", "m1", last=True), token("Two", "m2", node="other")).finish()
    assert transcript.told == [("observation", "One"), ("final", "Two")]


def test_a_copy_that_its_node_makes_is_the_message_itself() -> None:
    transcript = Transcript(token("Hello", last=True), update(AIMessage("Hello"))).finish()
    assert transcript.told == [("final", "Hello")]


def test_a_copy_that_a_later_node_makes_is_the_message_itself() -> None:
    transcript = Transcript(
        token("Hello", "m1", last=True, node="think"),
        ((), "updates", {"think": {"answer": "Hello"}}),
        update(AIMessage("Hello"), node="answer"),
    ).finish()
    assert transcript.told == [("final", "Hello")]
    assert [draft.block for draft in transcript.drafts if isinstance(draft, CompleteDraft)] == [0]


def test_two_nodes_that_say_the_same_have_both_said_it() -> None:
    transcript = Transcript(
        token("Yes", "m1", last=True, node="a"),
        token("Yes", "m2", last=True, node="b"),
        update(ai("Yes", "m1"), node="a"),
        update(ai("Yes", "m2"), node="b"),
    ).finish()
    assert transcript.told == [("observation", "Yes"), ("final", "Yes")]


def test_a_later_node_may_replace_the_text_of_the_answer() -> None:
    """A middleware that masks what the model has said gives the same id."""
    transcript = Transcript(
        token("Call 555-0100", last=True),
        update(ai("Call 555-0100")),
        update(ai("Call [redacted]"), node="PIIMiddleware.after_model"),
    )
    [*_, final] = transcript.transcoder.finish(9.0)
    assert isinstance(final, CompleteDraft)
    assert final.block == 0
    assert text_of(final.message.parts) == "Call [redacted]"


def test_a_text_beside_calls_that_a_later_node_replaces_is_not_the_final() -> None:
    transcript = Transcript(
        update(ai("A secret", "m1", ("c1", "a"))), update(ai("I can't say that.", "m1"), node="guard.after_model")
    ).finish()
    assert transcript.told[-1] == ("final", "I can't say that.")


def test_a_text_that_its_node_left_out_closes_its_block_empty() -> None:
    transcript = Transcript(token("A secret"), token(last=True), update(ai("", "m1", ("c1", "a"))))
    [_, observation, calls] = transcript.drafts
    assert isinstance(observation, CompleteDraft) and isinstance(calls, CompleteDraft)
    assert observation.block == 0
    assert text_of(observation.message.parts) == ""
    assert calls.message.channel is Channel.TOOL_CALL


def test_calls_of_a_message_that_was_given_up_too_early_still_count() -> None:
    """Of two tasks of one node, the first one's update tells nothing of the second one's message."""
    transcript = Transcript(
        token("A", "m1", last=True),
        token("B", "m2", calls=[("c2", "b", "{}")], last=True),
        update(ai("A", "m1")),
        update(ai("B", "m2", ("c2", "b"))),
        update(result("c2"), node="tools"),
        update(ai("End", "m3")),
    ).finish()
    assert transcript.told == [
        ("observation", "A"),
        ("observation", "B"),
        ("tool_call", "b(c2)"),
        ("tool_result", "c2=done"),
        ("final", "End"),
    ]
