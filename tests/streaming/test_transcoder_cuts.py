"""An exchange that is stopped or fails, at every position of its stream; and a graph that pauses."""

from collections.abc import Sequence

import pytest
from langgraph.types import Interrupt
from support.drafts import Told, Transcript, ai, result, token, update

from agentic_backend.agents.agent_flow import StreamPart
from agentic_backend.protocol.events import Choice
from agentic_backend.protocol.messages import Channel, FinishReason
from agentic_backend.streaming.people.approval_requests import args_sha256
from agentic_backend.streaming.transcode.drafts import TextDraft

CALLING = ai("Let me look", "m1", ("c1", "search"), ("c2", "time"), additional_kwargs={"reasoning_content": "I must"})
WITH_TOOLS = [
    token(thought="I "),
    token(thought="must"),
    token("Let me "),
    token("look"),
    token(calls=[("c1", "search", '{"q":'), ("c2", "time", "")]),
    token(last=True),
    update(CALLING),
    update(result("c2"), node="tools"),
    update(result("c1"), node="tools"),
    token("Here ", "m2"),
    token("it is", "m2", last=True),
    update(ai("Here it is", "m2")),
]
TWO_AGENTS = [
    token("Inner ", "m1", within=("a:1",)),
    token("Other ", "m2", within=("b:1",)),
    token("one", "m1", within=("a:1",), last=True),
    token("two", "m2", within=("b:1",), last=True),
    update(ai("Inner one", "m1"), within=("a:1",)),
    update(ai("Other two", "m2"), within=("b:1",)),
    update(ai("Inner one", "m1"), node="a"),
    update(ai("Other two", "m2"), node="b"),
    token(message_id="m3", calls=[("c1", "search", "{}")], last=True),
    update(ai("", "m3", ("c1", "search"))),
    update(result("c1"), node="tools"),
    token("Both", "m4"),
    update(ai("Both", "m4")),
]
EVERY_CUT = [
    pytest.param(stream[:cut], id=f"{name}-{cut}")
    for name, stream in (("tools", WITH_TOOLS), ("agents", TWO_AGENTS))
    for cut in range(len(stream) + 1)
]


@pytest.mark.parametrize("reason", [FinishReason.CANCELLED, FinishReason.OTHER])
@pytest.mark.parametrize("stream", EVERY_CUT)
def test_a_cut_leaves_nothing_open(stream: Sequence[StreamPart], reason: FinishReason) -> None:
    transcript = Transcript(*stream).close(reason)
    finals = [message for message in transcript.messages if message.channel is Channel.FINAL]
    assert [final.metadata.finish_reason for final in finals] == [reason] * len(finals)
    was_seen = any(isinstance(draft, TextDraft) and draft.channel is not Channel.THOUGHT for draft in transcript.drafts)
    is_told = any(message.channel in (Channel.FINAL, Channel.OBSERVATION) for message in transcript.messages)
    assert was_seen == is_told


@pytest.mark.parametrize(
    ("cut", "told"),
    [
        (0, []),
        (1, [("thought", "I ")]),
        (3, [("thought", "I must"), ("final", "Let me ")]),
        (5, [("thought", "I must"), ("final", "Let me look")]),
        (
            7,
            [
                ("thought", "I must"),
                ("observation", "Let me look"),
                ("tool_call", "search(c1) time(c2)"),
                ("tool_result", "c1=Stopped.!"),
                ("tool_result", "c2=Stopped.!"),
            ],
        ),
        (
            10,
            [
                ("thought", "I must"),
                ("observation", "Let me look"),
                ("tool_call", "search(c1) time(c2)"),
                ("tool_result", "c2=done"),
                ("tool_result", "c1=done"),
                ("final", "Here "),
            ],
        ),
    ],
)
def test_what_a_cut_leaves(cut: int, told: list[Told]) -> None:
    assert Transcript(*WITH_TOOLS[:cut]).close().told == told


def test_open_calls_get_their_results_before_the_final() -> None:
    transcript = Transcript(update(ai("", "m1", ("c1", "search"))), token("While I wait", "m2", node="other")).close()
    assert transcript.told == [("tool_call", "search(c1)"), ("tool_result", "c1=Stopped.!"), ("final", "While I wait")]


def test_of_the_texts_that_were_being_written_the_last_begun_is_the_final() -> None:
    transcript = Transcript(
        update(ai("Before", "m0")),
        token("One", "m1", node="a"),
        token("Two", "m2", node="b"),
        token("!", "m1", node="a"),
    ).close()
    assert transcript.told == [("observation", "Before"), ("observation", "One!"), ("final", "Two")]


def test_a_text_that_was_complete_is_the_final_where_none_has_begun_since() -> None:
    transcript = Transcript(
        update(ai("Before", "m0", response_metadata={"finish_reason": "stop"})),
        token(message_id="m1", calls=[("c1", "search", "{}")]),
    ).close()
    assert transcript.told == [("final", "Before")]
    assert transcript.final.metadata.finish_reason is FinishReason.CANCELLED


def test_usage_that_was_told_before_the_cut_counts() -> None:
    usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    transcript = Transcript(token("One", usage_metadata=usage)).close()
    assert transcript.transcoder.usage.total_tokens == 7


def test_a_graph_that_pauses_for_an_approval_waits_for_it() -> None:
    asks = {
        "action_requests": [
            {"name": "send", "args": {"to": "ann", "n": 2**60}, "description": "Send it?", "id": "c1"},
            {"name": "drop", "args": {}},
        ],
        "review_configs": [
            {"action_name": "send", "allowed_decisions": ["approve", "edit", "reject"]},
            {"action_name": "drop", "allowed_decisions": ["approve"]},
        ],
    }
    transcript = Transcript(update(CALLING))
    assert transcript.transcoder.waiting is None
    transcript.feed(((), "updates", {"__interrupt__": (Interrupt(asks, id="i1"),)}))
    waiting = transcript.transcoder.waiting
    assert waiting is not None
    [send, drop] = waiting.requests
    assert (send.interrupt_id, send.call_id, send.name, send.args) == ("i1", "i1:0", "send", {"to": "ann", "n": 2**60})
    assert (send.question, send.allowed) == ("Send it?", ["approve", "reject", "edit"])
    assert send.args_sha256 == args_sha256({"to": "ann", "n": 2**60})
    assert (drop.interrupt_id, drop.call_id, drop.name, drop.args, drop.allowed) == (
        "i1",
        "i1:1",
        "drop",
        {},
        ["approve"],
    )


def test_questions_of_several_nodes_wait_together_and_each_once() -> None:
    one = Interrupt({"question": "Which?", "choices": ["left", {"id": "r", "label": "right"}]}, id="i1")
    two = Interrupt("Your name?", id="i2")
    transcript = Transcript(
        (("sub:1",), "updates", {"__interrupt__": (one,)}), ((), "updates", {"__interrupt__": (one, two)})
    )
    waiting = transcript.transcoder.waiting
    assert waiting is not None
    assert [(request.interrupt_id, request.question, request.allowed) for request in waiting.requests] == [
        ("i1", "Which?", ["answer"]),
        ("i2", "Your name?", ["answer"]),
    ]
    assert waiting.requests[0].choices == [Choice(id="left", label="left"), Choice(id="r", label="right")]


def test_a_stop_while_the_graph_waits_answers_its_calls() -> None:
    transcript = Transcript(update(CALLING), ((), "updates", {"__interrupt__": (Interrupt("Sure?", id="i1"),)})).close()
    assert [told for told in transcript.told if told[0] == "tool_result"] == [
        ("tool_result", "c1=Stopped.!"),
        ("tool_result", "c2=Stopped.!"),
    ]
