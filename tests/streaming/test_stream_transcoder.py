"""What a model says and its tools give, as drafts: texts, thoughts, calls, results, and what is told beside them."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.messages.ai import UsageMetadata
from langgraph.types import Overwrite
from support.drafts import Transcript, ai, result, token, update

from agentic_backend.protocol.messages import Channel, FinishReason, TokenUsage
from agentic_backend.protocol.parts import ImageUrlPart, TextPart, ToolCallPart, ToolResultPart, text_of
from agentic_backend.streaming.transcode.drafts import ActivityDraft, CompleteDraft, TextDraft

USAGE = UsageMetadata(input_tokens=3, output_tokens=4, total_tokens=7)


def test_tokens_are_shown_as_they_come_and_their_message_is_the_final() -> None:
    transcript = Transcript(token("Hel"), token("lo"), token(last=True), update(ai("Hello")))
    assert transcript.drafts == [TextDraft(0, Channel.FINAL, "Hel"), TextDraft(0, Channel.FINAL, "lo")]
    transcript.finish()
    [*_, final] = transcript.drafts
    assert isinstance(final, CompleteDraft) and final.block == 0
    assert final.message.channel is Channel.FINAL
    assert final.message.parts == [TextPart(text="Hello")]


def test_a_message_that_was_not_streamed_has_no_block() -> None:
    transcript = Transcript(update(ai("Hello"))).finish()
    assert [draft.block for draft in transcript.drafts if isinstance(draft, CompleteDraft)] == [None]
    assert transcript.told == [("final", "Hello")]


def test_the_message_of_a_model_that_does_not_stream_is_shown_at_once() -> None:
    whole = ((), "messages", (ai("Hello"), {"langgraph_node": "model"}))
    transcript = Transcript(whole)
    assert transcript.drafts == [TextDraft(0, Channel.FINAL, "Hello")]
    transcript.feed(update(ai("Hello")))
    assert transcript.finish().told == [("final", "Hello")]


@pytest.mark.parametrize("blocks", [True, False])
def test_a_thought_has_a_block_and_a_message_of_its_own(blocks: bool) -> None:
    def thought(text: str) -> Any:
        if blocks:
            return token([{"type": "reasoning", "reasoning": text, "index": 0}])
        return token(thought=text)

    def said(text: str) -> Any:
        return token([{"type": "text", "text": text, "index": 1}] if blocks else text)

    if blocks:
        whole = ai([{"type": "reasoning", "reasoning": "Let me think"}, {"type": "text", "text": "So be it"}])
    else:
        whole = ai("So be it", additional_kwargs={"reasoning_content": "Let me think"})
    transcript = Transcript(thought("Let me"), thought(" think"), said("So "), said("be it"), update(whole)).finish()
    assert transcript.told == [("thought", "Let me think"), ("final", "So be it")]
    assert [draft for draft in transcript.drafts if isinstance(draft, TextDraft)] == [
        TextDraft(0, Channel.THOUGHT, "Let me"),
        TextDraft(0, Channel.THOUGHT, " think"),
        TextDraft(1, Channel.FINAL, "So "),
        TextDraft(1, Channel.FINAL, "be it"),
    ]


def test_a_thought_stays_though_its_node_hands_over_the_text_alone() -> None:
    transcript = Transcript(token(thought="Hmm"), token("Yes", last=True), update(ai("Yes", None))).finish()
    assert transcript.told == [("thought", "Hmm"), ("final", "Yes")]


def test_text_beside_calls_is_an_observation_and_the_calls_are_one_message() -> None:
    transcript = Transcript(
        token("Let me look"),
        token(calls=[("c1", "search", '{"q": '), ("c2", "time", "{}")]),
        token(last=True),
        update(ai("Let me look", "m1", ("c1", "search"), ("c2", "time"))),
        update(result("c2", "noon"), node="tools"),
        update(result("c1", "found"), node="tools"),
        token("It is noon", "m2", last=True),
        update(ai("It is noon", "m2")),
    ).finish()
    assert transcript.told == [
        ("observation", "Let me look"),
        ("tool_call", "search(c1) time(c2)"),
        ("tool_result", "c2=noon"),
        ("tool_result", "c1=found"),
        ("final", "It is noon"),
    ]
    calls = [part for message in transcript.messages for part in message.parts if isinstance(part, ToolCallPart)]
    assert [call.name for call in calls] == ["search", "time"]
    assert not transcript.transcoder.calls


def test_calls_without_text_have_no_observation() -> None:
    transcript = Transcript(update(ai("", "m1", ("c1", "search"))), update(result("c1"), node="tools"))
    assert transcript.told == [("tool_call", "search(c1)"), ("tool_result", "c1=done")]


def test_a_result_tells_whether_the_tool_failed_and_how_long_it_took() -> None:
    transcript = Transcript(update(ai("", "m1", ("c1", "a"), ("c2", "b"))))
    transcript.feed(update(result("c1", "fine"), node="tools"))
    transcript.feed(update(result("c2", "broken", status="error"), node="tools"))
    parts = [part for message in transcript.messages for part in message.parts if isinstance(part, ToolResultPart)]
    assert parts == [
        ToolResultPart(call_id="c1", ok=True, latency_ms=1000, content="fine"),
        ToolResultPart(call_id="c2", ok=False, latency_ms=2000, content="broken"),
    ]
    assert [message.metadata.latency_ms for message in transcript.messages[1:]] == [1000, 2000]


def test_a_call_whose_result_never_comes_gets_one_before_the_final() -> None:
    transcript = Transcript(update(ai("", "m1", ("c1", "a"))), update(ai("Never mind", "m2"))).finish()
    assert transcript.told == [
        ("tool_call", "a(c1)"),
        ("tool_result", "c1=The tool gave no result.!"),
        ("final", "Never mind"),
    ]


def test_a_result_without_its_call_is_not_shown() -> None:
    transcript = Transcript(update(result("c1")), update(ai("Hello"))).finish()
    assert transcript.told == [("final", "Hello")]


def test_a_model_may_number_its_calls_from_the_first_again() -> None:
    parts = []
    for number in range(3):
        parts.append(token(f"{number}", f"m{number}", calls=[("0", "count", "{}")], last=True))
        parts.append(update(ai(f"{number}", f"m{number}", ("0", "count"))))
        parts.append(update(result("0", f"{number}").model_copy(update={"id": f"r{number}"}), node="tools"))
    transcript = Transcript(*parts, update(ai("Done", "m9"))).finish()
    assert [told for told in transcript.told if told[0] != "observation"] == [
        ("tool_call", "count(0)"),
        ("tool_result", "0=0"),
        ("tool_call", "count(0)"),
        ("tool_result", "0=1"),
        ("tool_call", "count(0)"),
        ("tool_result", "0=2"),
        ("final", "Done"),
    ]


def test_images_are_shown_beside_the_text() -> None:
    content = [{"type": "text", "text": "See"}, {"type": "image", "url": "https://example.org/cat.png"}]
    transcript = Transcript(token([{"type": "text", "text": "See", "index": 0}]), update(ai(content))).finish()
    assert transcript.final.parts == [TextPart(text="See"), ImageUrlPart(url="https://example.org/cat.png")]


def test_of_what_a_model_shows_beside_its_text_only_so_much_is_kept_until_its_node_returns_it() -> None:
    data = "data:image/png;base64," + "A" * 1_000_000
    beside = [token([{"type": "image", "url": data, "index": n}]) for n in range(1, 7)]
    source = {"type": "citation", "url": "https://example.org", "title": "Source"}
    cited = token([{"type": "text", "text": "x" * 100_000, "annotations": [source], "index": 0}])
    transcript = Transcript(token([{"type": "text", "text": "See", "index": 0}]), cited, *beside)
    [writing] = transcript.transcoder._writing.values()
    assert (
        sum(len(str(block.get("url", ""))) + len(str(block.get("text", ""))) for block in writing._beside) < 4_000_000
    )
    transcript.close()
    assert text_of(transcript.final.parts).count("[cut: 3 more files left out]") == 1
    assert sum(isinstance(part, ImageUrlPart) for part in transcript.final.parts) > 0
    assert transcript.final.metadata.sources


@pytest.mark.parametrize(
    "handed_over",
    [
        {"messages": ai("Hello")},
        {"messages": [ai("Hello")]},
        {"messages": {"role": "assistant", "content": "Hello"}},
        {"messages": [{"role": "assistant", "content": "Hello", "id": "m1"}]},
        {"messages": ("ai", "Hello")},
        {"messages": [("assistant", "Hello")]},
        {"messages": Overwrite([HumanMessage("Hi", id="h1"), ai("Hello")])},
        {"messages": {"__overwrite__": [ai("Hello")]}},
        [{"other": 1}, {"messages": [ai("Hello")]}],
        ({"messages": [ai("Hello")]},),
    ],
)
def test_a_node_may_hand_its_message_over_in_every_form(handed_over: Any) -> None:
    transcript = Transcript(token("Hello", last=True), ((), "updates", {"model": handed_over})).finish()
    assert transcript.told == [("final", "Hello")]


@pytest.mark.parametrize("nothing", [None, {}, {"messages": None}, {"messages": []}, {"other": ai("Hello")}, "text", 7])
def test_an_update_without_messages_says_nothing(nothing: Any) -> None:
    assert Transcript(((), "updates", {"node": nothing})).drafts == []


def test_custom_events_are_progress() -> None:
    transcript = Transcript(((), "custom", {"step": 1}), (("sub:1",), "custom", "half-way"))
    assert transcript.drafts == [
        ActivityDraft("progress", {"step": 1}),
        ActivityDraft("progress", {"value": "half-way"}),
    ]


def test_the_final_tells_model_usage_finish_reason_and_latency() -> None:
    metadata = {"model_name": "gpt-9", "finish_reason": "length"}
    transcript = Transcript(token("Hello"), token(last=True))
    transcript.feed(update(ai("Hello", usage_metadata=USAGE, response_metadata=metadata)))
    told = transcript.finish().final.metadata
    assert told.model == "gpt-9"
    assert told.token_usage == TokenUsage(input_tokens=3, output_tokens=4, total_tokens=7)
    assert told.finish_reason is FinishReason.LENGTH
    assert told.latency_ms == 3000
    assert told.agent_id == "agent"
    assert transcript.transcoder.model == "gpt-9"


def test_the_first_token_is_timed_be_it_a_thought() -> None:
    transcript = Transcript(token(), token(thought="Hmm"), token("Yes"))
    assert transcript.transcoder.first_token_at == 2.0


def test_usage_is_the_sum_of_all_model_calls_each_counted_once() -> None:
    transcript = Transcript(
        token("a", "m1", last=True, usage_metadata=USAGE),
        update(ai("a", "m1", ("c1", "x"), usage_metadata=USAGE)),
        update(result("c1"), node="tools"),
        token('{"route": 1}', "router", node="router", last=True, usage_metadata=USAGE),
        update(node="router"),
        update(ai("b", "m2", usage_metadata=USAGE)),
        update(ai("a", "m1", ("c1", "x"), usage_metadata=USAGE), ai("b", "m2", usage_metadata=USAGE), node="parent"),
    ).finish()
    assert transcript.transcoder.usage == TokenUsage(input_tokens=9, output_tokens=12, total_tokens=21)


def test_usage_of_a_message_that_its_node_copied_is_that_of_the_model() -> None:
    metadata = {"model_name": "gpt-9", "finish_reason": "length"}
    said = token("Hello", last=True, usage_metadata=USAGE, response_metadata=metadata)
    transcript = Transcript(said, update(AIMessage("Hello"))).finish()
    assert transcript.transcoder.usage.total_tokens == 7
    assert transcript.final.metadata.model == "gpt-9"
    assert transcript.final.metadata.finish_reason is FinishReason.LENGTH


def test_arguments_that_are_no_json_keep_their_card() -> None:
    message = ai("", invalid_tool_calls=[{"id": "c1", "name": "search", "args": '{"q": oops', "error": "no JSON"}])
    transcript = Transcript(update(message)).finish()
    assert transcript.messages[0].parts == [ToolCallPart(call_id="c1", name="search", args={"_invalid": '{"q": oops'})]
    assert transcript.told[1:] == [("tool_result", "c1=The tool gave no result.!"), ("final", "")]


def test_an_answer_whose_id_an_earlier_one_had_is_told() -> None:
    transcript = Transcript(token("Again", "m1", last=True), update(ai("Again", "m1")), history=[ai("Before", "m1")])
    assert transcript.finish().told == [("final", "Again")]
