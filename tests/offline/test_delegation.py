"""Which expert the offline model asks, and what it asks an operations expert's tools."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from agentic_backend.offline.phrases import plan_answer

OPERATIONS = dict.fromkeys(["server_health", "list_metrics", "query_metrics", "tail_log"], "")
EXPERTS = {
    "ask_watcher": "Ask the watcher. It tells of this server's health, its metrics and its log.",
    "ask_librarian": "Ask the librarian. She searches the documents about this server.",
}


def calls(text: str, tools: dict[str, str]) -> list[tuple[str, dict[str, object]]]:
    return [(call["name"], call["args"]) for call in plan_answer([HumanMessage(text)], tools).calls]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Is the server healthy?", [("server_health", {})]),
        ("Please tell me whether this system is up and running.", [("server_health", {})]),
        ("What is the health of the server?", [("server_health", {})]),
        ("Which metrics are there?", [("list_metrics", {})]),
        ("Show me the metrics.", [("list_metrics", {})]),
        ("What do the metrics say about running exchanges?", [("query_metrics", {"name": "exchange"})]),
        ("Show the metrics for chat_exchange_total", [("query_metrics", {"name": "chat_exchange_total"})]),
        ("Show me the last 5 lines of the log", [("tail_log", {"lines": 5})]),
        ("the latest errors in the server's log", [("tail_log", {"level": "error"})]),
        ("Is the server healthy, and show me the metrics", [("server_health", {}), ("list_metrics", {})]),
        ("Show me the metrics, then check the server", [("list_metrics", {}), ("server_health", {})]),
        ("Is the server healthy, and list the metrics", [("server_health", {}), ("list_metrics", {})]),
    ],
)
def test_phrases_of_operators(text: str, expected: list[tuple[str, dict[str, object]]]) -> None:
    assert calls(text, OPERATIONS) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Is the server healthy?", [("ask_watcher", "Is the server healthy")]),
        ("what do the metrics say about sockets", [("ask_watcher", "what do the metrics say about sockets")]),
        ("Search the documents for close codes", [("ask_librarian", "Search the documents for close codes")]),
        ('use the tool tail_log with {"lines": 3}', [("ask_watcher", 'use the tool tail_log with {"lines": 3}')]),
        ("Ask librarian: fail at once.", [("ask_librarian", "fail at once")]),
        (
            "Is the server healthy, and what do the documents say about health?",
            [("ask_watcher", "Is the server healthy"), ("ask_librarian", "what do the documents say about health")],
        ),
        (
            "Ask watcher: is the server healthy, and ask librarian: search the docs for ranks",
            [("ask_watcher", "is the server healthy"), ("ask_librarian", "search the docs for ranks")],
        ),
    ],
)
def test_a_leader_asks_the_expert_whose_description_speaks_of_it(text: str, expected: list[tuple[str, str]]) -> None:
    assert calls(text, EXPERTS) == [(name, {"question": question}) for name, question in expected]


def test_what_no_expert_speaks_of_is_told_to_be_missing() -> None:
    planned = plan_answer([HumanMessage("What is 3*4?")], EXPERTS)
    assert planned.calls == ()
    assert "For that I need `calculate`" in planned.text


def test_two_calls_of_one_clause_are_one_question() -> None:
    experts = {"ask_clock": "Knows the current time."}
    assert calls("what time is it in Rome and Oslo", experts) == [
        ("ask_clock", {"question": "what time is it in Rome and Oslo"})
    ]


def test_own_tools_come_before_experts() -> None:
    tools = EXPERTS | OPERATIONS
    assert calls("Is the server healthy?", tools) == [("server_health", {})]


def test_answers_of_experts_are_told_under_their_names() -> None:
    asked = HumanMessage("Is the server healthy, and what do the documents say about health?")
    made = plan_answer([asked], EXPERTS).calls
    said = [
        asked,
        AIMessage("", tool_calls=list(made)),
        ToolMessage("All is well.", tool_call_id=made[0]["id"]),
        ToolMessage("She is out.", tool_call_id=made[1]["id"], status="error"),
    ]
    assert plan_answer(said, EXPERTS).text == (
        "**watcher** says:\n\nAll is well.\n\nThe tool `ask_librarian` failed: She is out."
    )


def test_lines_stay_lines() -> None:
    asked = HumanMessage("show the metrics")
    [made] = plan_answer([asked], OPERATIONS).calls
    said = [asked, AIMessage("", tool_calls=[made]), ToolMessage("a 1\nb 2", tool_call_id=made["id"])]
    assert plan_answer(said, OPERATIONS).text == "The tool `list_metrics` answered:\n\n```\na 1\nb 2\n```"
