"""The trust summary computed from rows: what cites what, what is left out, and how large it may be."""

from collections.abc import Sequence
from typing import Any

import pytest
from support.cpu_time import takes_at_most

from agentic_backend.protocol.messages import Channel, ExchangeStatus, MessageMetadata, Role, utc_now
from agentic_backend.protocol.parts import LinkPart, Part, TextPart, ToolCallPart, ToolResultPart
from agentic_backend.protocol.trust import Ground, TrustSummary
from agentic_backend.stores.protocol.trail import Allowance, ToolCallRecord
from agentic_backend.stores.records import ExchangeRecord, HumanDecision, MessageRecord
from agentic_backend.trust.rows import TrustRows
from agentic_backend.trust.summary import summary_of

NOW = utc_now()
ALMANAC = "https://example.org/almanac"


def exchange(**fields: Any) -> ExchangeRecord:
    values: dict[str, Any] = {"status": ExchangeStatus.OK, **fields}
    return ExchangeRecord(id="e", session_id="s", user_id="ann", agent_id="a", request_id="r", started_at=NOW, **values)


def message(rank: int, role: Role, channel: Channel, *parts: Part, **metadata: Any) -> MessageRecord:
    return MessageRecord(
        role=role,
        channel=channel,
        parts=list(parts),
        metadata=MessageMetadata(**metadata),
        session_id="s",
        exchange_id="e",
        rank=rank,
        timestamp=NOW,
    )


def call(number: int = 1, **fields: Any) -> ToolCallRecord:
    values: dict[str, Any] = {
        "id": f"e.{number}",
        "at": NOW,
        "session_id": "s",
        "exchange_id": "e",
        "user_id": "ann",
        "agent_id": "a",
        "call_id": "c",
        "name": "look",
        "args": {},
        "state": "success",
        "result": "",
    }
    return ToolCallRecord(**values | fields)


def summed(
    answer: str,
    *calls: ToolCallRecord,
    record: ExchangeRecord | None = None,
    shown: Sequence[Part] = (),
    question: str = "go",
    **metadata: Any,
) -> TrustSummary:
    """The summary of an answer with these calls; a tool has shown the parts `shown` beside its result."""
    beside = [ToolCallPart(call_id="c", name="look", args={})]
    result = [ToolResultPart(call_id="c", content=""), *shown]
    messages = [
        message(0, Role.USER, Channel.FINAL, TextPart(text=question)),
        message(1, Role.ASSISTANT, Channel.TOOL_CALL, *beside),
        message(2, Role.TOOL, Channel.TOOL_RESULT, *result),
        message(3, Role.ASSISTANT, Channel.FINAL, TextPart(text=answer), **metadata),
    ]
    return summary_of([TrustRows(record or exchange(), messages, calls, (), ())])


def grounds(found: TrustSummary) -> list[list[tuple[str, str]]]:
    return [[(ground.id, ground.by) for ground in statement.rests_on] for statement in found.statements]


SOURCES = [
    {"number": 1, "title": "Almanac of Weather", "url": ALMANAC, "cited_text": "Paris: sunny, 21 degrees"},
    {"number": 2, "title": "Map", "file_name": "map-of-paris.pdf"},
]


@pytest.mark.parametrize(
    ("statement", "cited"),
    [
        ("All is well [1].", ["s1"]),
        ("All is well [1][2].", ["s1", "s2"]),
        ("All is well [1, 2].", ["s1", "s2"]),
        ("All is well [^2].", ["s2"]),
        (f"See {ALMANAC}.", ["s1"]),
        (f"All is [well]({ALMANAC}).", ["s1"]),
        ("So says the almanac of weather.", ["s1"]),
        ("It is in map-of-paris.pdf.", ["s2"]),
        ("All is well [3].", []),
        ("All is well (1).", []),
        ("The map is old.", []),
    ],
)
def test_a_statement_cites_a_source_by_number_address_file_or_title(statement: str, cited: list[str]) -> None:
    assert grounds(summed(statement, sources=SOURCES)) == [[(id, "citation") for id in cited]]


@pytest.mark.parametrize(
    ("title", "statement", "is_cited"),
    [
        ("Weather", "The weather is fine.", False),
        ("Report 7", "The report 7 is fine.", True),
        ("東京都統計年鑑", "東京都統計年鑑による。", True),
    ],
)
def test_a_title_of_one_word_is_no_citation_by_chance(title: str, statement: str, is_cited: bool) -> None:
    assert grounds(summed(statement, sources=[{"title": title}])) == [[("s1", "citation")] if is_cited else []]


def test_what_is_cited_of_a_source_supports_statements_too() -> None:
    found = summed("It is sunny at 21 degrees. It is sunny at 21 degrees [1].", sources=SOURCES)
    assert grounds(found) == [[("s1", "match")], [("s1", "citation")]]
    assert (found.sources[0].number, found.sources[0].title, found.sources[0].href) == (
        1,
        "Almanac of Weather",
        ALMANAC,
    )


def test_numbers_in_code_are_no_citations() -> None:
    assert grounds(summed("```\nlist [1]\n```", sources=SOURCES)) == [[]]


def test_a_source_that_a_tool_has_found_is_listed_once_with_the_tool() -> None:
    links = [
        LinkPart(kind="related", title="Almanac", href=ALMANAC),
        LinkPart(kind="citation", title="Atlas of Rivers", file_name="rivers.md"),
    ]
    found = summed("So says the Atlas of Rivers.", call(), shown=links, sources=SOURCES[:1])
    assert [(one.id, one.number, one.title, one.found_by) for one in found.sources] == [
        ("s1", 1, "Almanac of Weather", "t1"),
        ("s2", None, "Atlas of Rivers", "t1"),
    ]
    assert grounds(found) == [[("s2", "citation")]]


def test_a_source_with_two_numbers_is_cited_by_both() -> None:
    twice = [{"number": number, "title": f"Chapter {number}", "url": ALMANAC} for number in (1, 2)]
    assert grounds(summed("One [1]. Two [2].", sources=twice)) == [[("s1", "citation")], [("s2", "citation")]]


def test_half_an_address_is_not_told() -> None:
    found = summed("x", sources=[{"number": 1, "title": "T" * 999, "url": "https://example.org/" + "x" * 3_000}])
    assert found.sources[0].href is None
    assert found.sources[0].title == "T" * 300


def test_a_call_id_that_comes_again_is_decided_on_again() -> None:
    def decision(action: Any, name: str = "look") -> HumanDecision:
        return HumanDecision(interrupt_id="i", action=action, by="ann", at=NOW, call_id="c", name=name, args={})

    record = exchange(decisions=[decision("approve"), decision("reject"), decision("edit", "write")])
    calls = [call(1), call(2, state="rejected", result=None), call(3, name="write"), call(4)]
    found = summed("done", *calls, record=record)
    assert [tool.approval for tool in found.tools] == ["approved", "rejected", "edited", "not_recorded"]
    assert [tool.id for tool in found.tools] == ["t1", "t2", "t3", "t4"]


@pytest.mark.parametrize(
    ("allowance", "words"),
    [
        ({}, "The settings of the agent 'a' don't require approval of this tool."),
        ({"requires_approval": True}, "require approval of this tool, but its own code called it without asking."),
        ({"needs": ["x:read", "x:write"]}, "It needs x:read, x:write, which the user's roles give."),
        ({"needs": ["x:read"], "everybody_may": True}, "It needs x:read, which this server gives to every user."),
    ],
)
def test_why_a_call_ran_unasked_is_told_in_words(allowance: dict[str, Any], words: str) -> None:
    values = {"agent_id": "a", "requires_approval": False, "needs": [], "everybody_may": False, **allowance}
    [tool] = summed("done", call(allowance=Allowance(**values))).tools
    assert tool.approval == "not_required"
    assert words in tool.allowed_because


@pytest.mark.parametrize(
    ("state", "error", "outcome"),
    [
        ("success", None, "ok"),
        ("error", "It broke.", "failed"),
        ("error", "Stopped before it gave a result.", "cancelled"),
        ("error", "The exchange failed before it gave a result.", "cancelled"),
        ("error", "The server went away before the tool gave a result.", "cancelled"),
        ("forbidden", "The user may not.", "forbidden"),
        ("pending", None, "pending"),
    ],
)
def test_how_a_call_ended(state: Any, error: str | None, outcome: str) -> None:
    [tool] = summed("done", call(state=state, error=error, result=None)).tools
    assert tool.outcome == outcome


def test_a_partial_answer_is_looked_at_and_the_words_of_a_module_are_not() -> None:
    for status in (ExchangeStatus.STOPPED, ExchangeStatus.ERROR, ExchangeStatus.INTERRUPTED):
        assert len(summed("One. Two.", record=exchange(status=status)).statements) == 2
    blocked = summed("I can't say that.", record=exchange(status=ExchangeStatus.BLOCKED))
    assert (blocked.statements, blocked.answer_rank) == ([], None)


def test_places_count_characters_of_the_whole_text() -> None:
    answer = "😀 So. 🎉 It is 21 degrees and sunny."
    found = summed(answer, call(result='{"temp": 21, "sky": "sunny"}'))
    assert [answer[one.start : one.end] for one in found.statements] == [one.text for one in found.statements]
    assert found.statements[1].rests_on == [Ground(id="t1", by="match")]


@pytest.mark.parametrize(
    ("answer", "calls"),
    [
        ("x. " * 20_000, []),
        ("- a\n" * 501, []),
        ("done", [call(result="y" * 70_000)]),
        ("done", [call(number, result="z" * 60_000) for number in range(1, 6)]),
    ],
)
def test_what_is_too_large_is_cut_and_says_so(answer: str, calls: list[ToolCallRecord]) -> None:
    found = summed(answer, *calls)
    assert found.cut
    assert len(found.statements) <= 500


def test_a_hostile_exchange_takes_little_time_and_gives_a_small_summary() -> None:
    calls = [call(number, result=" ".join(map(str, range(number, 9_000 + number)))) for number in range(1, 200)]
    links = [
        LinkPart(kind="citation", title=f"Title {number} " * 30_000, href=f"https://x.org/{number}")
        for number in range(64)
    ]
    answer = " ".join(map(str, range(400_000)))

    def summary() -> TrustSummary:
        return summed(answer[:2_000_000], *calls, shown=links, question=answer, sources=[*SOURCES] * 25)

    found = summary()
    assert takes_at_most(2, summary)
    assert found.cut
    assert len(found.model_dump_json()) < 1_000_000
