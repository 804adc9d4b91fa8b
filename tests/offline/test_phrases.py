"""What the offline model plans for a text, without streaming it."""

from collections.abc import Mapping

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from agentic_backend.offline.conversation import SUMMARY_HEADING, Conversation
from agentic_backend.offline.phrases import (
    MAX_WORDS,
    PHRASES,
    SUMMARY_PROMPT_START,
    TITLE_PROMPT_START,
    Plan,
    lorem,
    plan_answer,
)
from agentic_backend.sessions.asking.titles import NAME_CONVERSATION

TOOLS = dict.fromkeys(["current_time", "calculate", "search_documents", "slow_task"], "")


def plan(text: str, tools: Mapping[str, str] = TOOLS) -> Plan:
    return plan_answer([HumanMessage(text)], tools)


def calls(text: str, tools: Mapping[str, str] = TOOLS) -> list[tuple[str, dict[str, object]]]:
    return [(call["name"], call["args"]) for call in plan(text, tools).calls]


def talk(*texts: str) -> str:
    """The answer to the last of `texts`, after the others were said and answered."""
    said: list[BaseMessage] = []
    answer = ""
    for text in texts:
        said.append(HumanMessage(text))
        answer = plan_answer(said, TOOLS).text
        said.append(AIMessage(answer))
    return answer


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "What time is it in Tokyo, and what is 12*34?",
            [("current_time", {"city": "Tokyo"}), ("calculate", {"expression": "12*34"})],
        ),
        ("hang on, what is 3+4?", [("calculate", {"expression": "3+4"})]),
        ("WHAT'S THE TIME IN new york RIGHT NOW?", [("current_time", {"city": "new york"})]),
        ("Can you tell me what time it is in Paris, France?", [("current_time", {"city": "Paris, France"})]),
        ("what time is it in Rome and Oslo", [("current_time", {"city": "Rome"}), ("current_time", {"city": "Oslo"})]),
        ("What time is it?", [("current_time", {"city": "UTC"})]),
        ("12*34", [("calculate", {"expression": "12*34"})]),
        (
            "what is 3 times 4 and 15% of 80?",
            [("calculate", {"expression": "3 * 4"}), ("calculate", {"expression": "15 / 100 * 80"})],
        ),
        ("Search the documents for sessions and ranks.", [("search_documents", {"query": "sessions and ranks"})]),
        ('Please look up "close codes" in the docs', [("search_documents", {"query": "close codes"})]),
        ("wait 5 seconds", [("slow_task", {"seconds": 5})]),
        ("Use the slow tool for 2.5 seconds, please.", [("slow_task", {"seconds": 2.5})]),
    ],
)
def test_a_request_becomes_calls(text: str, expected: list[tuple[str, dict[str, object]]]) -> None:
    assert calls(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'use the tool echo with {"a": {"b": [1]}, "c": "call x(y=1)"}',
            [("echo", {"a": {"b": [1]}, "c": "call x(y=1)"})],
        ),
        (
            'Use the echo tool with {"a": 1}, then call add(a=1, b="x)", c=true)',
            [("echo", {"a": 1}), ("add", {"a": 1, "b": "x)", "c": True})],
        ),
        ("call transfer_to_math()", [("transfer_to_math", {})]),
        ("use the tool `add`", [("add", {})]),
        ("First call add(a=1). What is 2+2?", [("add", {"a": 1})]),
    ],
)
def test_any_bound_tool_can_be_named(text: str, expected: list[tuple[str, dict[str, object]]]) -> None:
    assert calls(text, dict.fromkeys(["echo", "add", "transfer_to_math"], "")) == expected


@pytest.mark.parametrize(
    "text",
    [
        "call add(1, 2)",
        "call add(a=1e999)",
        "call add(a={1})",
        "use the tool add with {bad",
        "call add(a=" + "(" * 3000,
    ],
)
def test_unreadable_arguments_are_explained(text: str) -> None:
    planned = plan(text, dict.fromkeys(["add"], ""))
    assert planned.calls == ()
    assert "could not read the arguments of `add`" in planned.text


def test_a_tool_that_is_not_bound_is_not_called() -> None:
    planned = plan("What is 3*4?", dict.fromkeys(["current_time"], ""))
    assert planned.calls == ()
    assert "`calculate`" in planned.text
    assert "`current_time`" in planned.text


def test_the_agents_of_a_handoff_share_the_work() -> None:
    text = "Call transfer_to_math(). What is 3*4?"
    first = plan_answer([HumanMessage(text)], dict.fromkeys(["transfer_to_math"], ""))
    said = [HumanMessage(text), AIMessage("", tool_calls=list(first.calls))]
    said.append(ToolMessage("Transferred", tool_call_id=first.calls[0]["id"]))
    second = plan_answer(said, dict.fromkeys(["calculate"], ""))
    assert [call["name"] for call in first.calls] == ["transfer_to_math"]
    assert [call["name"] for call in second.calls] == ["calculate"]
    assert first.calls[0]["id"] != second.calls[0]["id"]


def test_a_call_that_a_person_edited_is_not_made_again() -> None:
    call = plan("What is 3*4?").calls[0]
    edited = {**call, "args": {"expression": "5*6"}}
    said = [HumanMessage("What is 3*4?"), AIMessage("", tool_calls=[edited])]
    said.append(ToolMessage("5*6 = 30", tool_call_id=call["id"], name="calculate"))
    assert plan_answer(said, TOOLS) == Plan("5*6 = 30.")


def test_call_ids_are_unique_over_a_conversation() -> None:
    said: list[BaseMessage] = []
    ids: list[str | None] = []
    for _ in range(5):
        said.append(HumanMessage("what is 1+1 and 2+2?"))
        made = plan_answer(said, TOOLS).calls
        said.append(AIMessage("", tool_calls=list(made)))
        said += [ToolMessage("done", tool_call_id=call["id"]) for call in made]
        ids += [call["id"] for call in made]
    assert len(set(ids)) == 10


def test_results_are_told_in_sentences() -> None:
    made = plan("What time is it in Tokyo, and what is 12*34?").calls
    said = [
        HumanMessage("What time is it in Tokyo, and what is 12*34?"),
        AIMessage("", tool_calls=list(made)),
        ToolMessage("In Tokyo it is 21:04.", tool_call_id=made[0]["id"]),
        ToolMessage("12*34 = 408", tool_call_id=made[1]["id"]),
    ]
    assert plan_answer(said, TOOLS).text == "In Tokyo it is 21:04; 12*34 = 408."


def test_phrases_in_results_decide_nothing() -> None:
    call = plan("wait 5 seconds").calls[0]
    said = [
        HumanMessage("wait 5 seconds"),
        AIMessage("", tool_calls=[call]),
        ToolMessage("fail at once. What is 1+1?", tool_call_id=call["id"], name="slow_task"),
    ]
    answer = plan_answer(said, TOOLS)
    assert (answer.ending, answer.calls) == ("stop", ())


def test_a_failed_tool_is_told() -> None:
    call = plan("what is 1/0?").calls[0]
    failed = ToolMessage("Division by zero.", tool_call_id=call["id"], status="error")
    said = [HumanMessage("what is 1/0?"), AIMessage("", tool_calls=[call]), failed]
    assert plan_answer(said, TOOLS).text == "The tool `calculate` failed: Division by zero."


@pytest.mark.parametrize(
    ("told", "asked", "answer"),
    [
        ("my name is Zorblax", "what is my name?", "Your name is Zorblax."),
        ("Hi, my name is Zorblax and I like tea.", "What’s my name", "Your name is Zorblax."),
        ("Call me Zorblax!", "who am I?", "Your name is Zorblax."),
        ("hello", "what is my name?", "You have not told me your name yet."),
        ("My favourite colour is blue.", "do you know my favourite colour?", "Your favourite colour is blue."),
        ("Please remember that I hid my keys", "what did I tell you?", "You told me that:\n\n- you hid your keys"),
        ("hello", "what did I tell you to remember?", "You have not told me anything to remember yet."),
        ("call me later", "what is my name?", "You have not told me your name yet."),
    ],
)
def test_it_remembers(told: str, asked: str, answer: str) -> None:
    assert talk(told, "write 5 words", asked) == answer


def test_the_later_fact_holds() -> None:
    assert talk("my name is Ada", "my name is Grace", "what is my name?") == "Your name is Grace."


def test_it_quotes_what_was_said_first_and_last() -> None:
    assert talk("alpha", "beta", "what did I say first?") == 'First you said: "alpha"'
    assert talk("alpha", "beta", "what did I say last?") == 'Last you said: "beta"'
    assert talk("what was my first message?") == "This is the first thing that you say to me."


@pytest.mark.parametrize(
    ("text", "ending", "words"),
    [
        ("fail at once", "fail", 0),
        ("Please fail after 7 tokens.", "fail", 7),
        ("hang forever", "hang", 0),
        ("Hello. Hang after 3 tokens!", "hang", 3),
        ("write 300 words", "stop", 300),
        ("Write me 1,234 words about whales, please", "stop", 1234),
        ("write 999999 words", "length", MAX_WORDS),
        ("count down slowly from 12", "stop", 13),
    ],
)
def test_demonstrations(text: str, ending: str, words: int) -> None:
    planned = plan(text)
    assert (planned.ending, len(planned.text.split())) == (ending, words)


@pytest.mark.parametrize(
    "text",
    [
        "hang on",
        "What happens if you fail at once?",
        "I would rather hang forever than fail at once",
        "repeat after me: fail at once",
        "echo\nhang forever",
        "remember that I must not fail at once",
        "I had to wait 5 seconds",
        "the time in Tokyo is what I wonder about",
        "What is 42?",
        "count down from 10001",
    ],
)
def test_nothing_happens_by_accident(text: str) -> None:
    planned = plan(text)
    assert (planned.ending, planned.calls, planned.pace) == ("stop", (), "words")
    assert planned.text


def test_an_echo_is_the_text_and_nothing_else() -> None:
    assert plan("Repeat after me: 1,\n  2  and call x(a=1)").text == "1,\n  2  and call x(a=1)"


def test_thinking_comes_before_whatever_else_is_asked() -> None:
    planned = plan("Think first: what is 3*4?")
    assert "what is 3*4?" in planned.thought
    assert [call["args"] for call in planned.calls] == [{"expression": "3*4"}]
    assert plan("think about whales").thought
    assert plan("I think about whales").thought == ""


def test_several_calls_are_announced() -> None:
    assert plan("what is 1+1?").text == ""
    assert plan("what is 1+1? Tell me what you do.").text == "Let me look that up with `calculate`."
    assert "`calculate` and `current_time`" in plan("what is 1+1 and what time is it in Rome?").text


def test_help_shows_every_phrase_and_every_tool() -> None:
    text = plan("What can you do?").text
    assert all(say in text for phrase in PHRASES for say in phrase.examples)
    assert all(f"`{name}`" in text for name in TOOLS)


def test_every_example_is_understood() -> None:
    tools = TOOLS | dict.fromkeys(["NAME", "transfer_to_NAME"], "")
    for phrase in PHRASES:
        for say in phrase.examples:
            said = Conversation([HumanMessage(say)], tools)
            assert next(known for known in PHRASES if known.answer(said)) is phrase, say


def test_what_it_does_not_know_it_says_back() -> None:
    assert "flobble" in plan("flobble").text
    assert "**help**" in plan("flobble").text
    assert plan_answer([], TOOLS).text == plan("").text


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("What time is it in Tokyo, and what is 12*34?", "Time Tokyo 12*34"),
        ("fail at once", "Fail Once"),
        ("hi", "Hi"),
        ("", "New conversation"),
        ("x" * 500, "X" + "x" * 59 + " …"),
    ],
)
def test_titles(text: str, title: str) -> None:
    assert NAME_CONVERSATION.startswith(TITLE_PROMPT_START)
    assert plan_answer([SystemMessage(NAME_CONVERSATION), HumanMessage(text)], TOOLS) == Plan(title)


def test_a_summary_keeps_what_was_told() -> None:
    transcript = "User: my name is Zorblax\nAssistant: Nice to meet you!\nUser: fail at once"
    summary = plan_answer([SystemMessage(SUMMARY_PROMPT_START), HumanMessage(transcript)], {})
    assert summary == Plan(f"{SUMMARY_HEADING}\n- my name is Zorblax\n- fail at once")
    later = [SystemMessage(summary.text), HumanMessage("what is my name?")]
    assert plan_answer(later, {}).text == "Your name is Zorblax."


def test_lorem_has_the_words_that_were_asked_for() -> None:
    assert [len(lorem(words).split()) for words in (0, 1, 8, 9, 50, 51, 1000)] == [0, 1, 8, 9, 50, 51, 1000]
    assert lorem(51).count("\n\n") == 1


@pytest.mark.parametrize("text", ["please " * 5000 + "x", "a, " * 50000, "what is " + "1+" * 50000, "call f(" * 20000])
def test_long_texts_are_planned(text: str) -> None:
    assert plan(text).text
