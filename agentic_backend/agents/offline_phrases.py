"""What the offline model answers: the conversation in, a plan out. Pure; the model only carries the plan out.

`PHRASES` is the whole of it: the first phrase that has a plan for the last human message wins, and `help` shows the
same table. A text inside a tool's result or a document decides nothing.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from langchain_core.messages import BaseMessage, ToolCall

from agentic_backend.agents.offline_answers import MARKDOWN, describe_results, excerpt, lorem, summary_of, title_of
from agentic_backend.agents.offline_calls import CallRequest, clause_pattern, requested_calls
from agentic_backend.agents.offline_delegation import delegated
from agentic_backend.agents.offline_memory import Memory
from agentic_backend.agents.offline_turn import Turn

TITLE_PROMPT_START = "You name conversations."
SUMMARY_PROMPT_START = "You summarise conversations."
MAX_WORDS = 20_000
MAX_COUNTDOWN = 10_000

_QUOTE = 200


@dataclass(frozen=True, slots=True)
class Plan:
    """What the model will do: think, speak, call, in this order, and end in the given way."""

    text: str = ""
    thought: str = ""
    calls: tuple[ToolCall, ...] = ()
    ending: Literal["stop", "length", "fail", "hang"] = "stop"
    pace: Literal["words", "countdown"] = "words"


Answer = Callable[[Turn], Plan | None]
"""The plan for a turn, or None where the turn says something else."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """`examples`: what a person may write, and what then happens."""

    answer: Answer
    examples: Mapping[str, str]


def plan_answer(messages: Sequence[BaseMessage], tools: Mapping[str, str]) -> Plan:
    """The plan for a conversation. `tools`: the descriptions of the tools that the model may call, by name."""
    turn = Turn(messages, tools)
    if turn.is_prompted(TITLE_PROMPT_START):
        return Plan(title_of(turn.text))
    if turn.is_prompted(SUMMARY_PROMPT_START):
        return Plan(summary_of([*turn.earlier, turn.text]))
    if turn.results:
        return _call_tools(_without_thinking(turn) or turn) or Plan(describe_results(turn.results))
    return _plan(turn)


def _plan(turn: Turn) -> Plan:
    return next((plan for phrase in PHRASES if (plan := phrase.answer(turn))), None) or _unknown(turn)


def _when(body: str, answer: Callable[[Turn, re.Match[str]], Plan]) -> Answer:
    """Answers a turn with a clause that says `body`."""
    pattern = clause_pattern(body)

    def matching(turn: Turn) -> Plan | None:
        matches = (pattern.fullmatch(clause) for clause in turn.clauses)
        return next((answer(turn, match) for match in matches if match), None)

    return matching


_ECHO = re.compile(r"\s*(?:please\s+)?(?:repeat\s+after\s+me\s*[:,]?|echo\s*:?)\s+(?P<text>\S.*)", re.I | re.S)
_THINK = re.compile(
    r"\s*(?:please\s+)?think(?:\s+(?:first|hard|aloud|step\s+by\s+step))?(?:\s+about\s|\s*[:,])\s*(?P<text>\S.*)",
    re.I | re.S,
)


def _echo(turn: Turn) -> Plan | None:
    match = _ECHO.match(turn.text)
    return Plan(match["text"]) if match else None


def _think(turn: Turn) -> Plan | None:
    rest = _without_thinking(turn)
    if rest is None:
        return None
    thought = (
        f'I am asked: "{excerpt(rest.text, _QUOTE)}" First I look for a phrase that I know. '
        "Then I see whether a tool has to help. Now I know what to do."
    )
    return replace(_plan(rest), thought=thought)


def _without_thinking(turn: Turn) -> Turn | None:
    """What is left of a turn that begins with "think about", which counts once."""
    match = _THINK.match(turn.text) if turn.rest is None else None
    return replace(turn, rest=match["text"].strip()) if match else None


def _call_tools(turn: Turn) -> Plan | None:
    """The calls that the text asks for and that were not made yet: after a handoff, the next agent makes the rest."""
    requests = delegated(requested_calls(turn.text), turn.tools)
    calls = turn.pending_calls(requests)
    if calls:
        names = [call["name"] for call in calls]
        beside = len(calls) > 1 or "tell me what you do" in turn.text.lower()
        return Plan(f"Let me look that up with {_listed(names)}." if beside else "", calls=calls)
    return Plan(_why_no_call(turn, requests)) if requests and not turn.results else None


def _why_no_call(turn: Turn, requests: Sequence[CallRequest]) -> str:
    missing = [request.name for request in requests if request.name not in turn.tools]
    if missing:
        return f"For that I need {_listed(missing)}, which this agent does not have. {_own_tools(turn)}"
    return (
        f"I could not read the arguments of {_listed([request.name for request in requests])}. "
        'Write `use the tool NAME with {"a": 1}` or `call NAME(a=1, b="x")`.'
    )


def _own_tools(turn: Turn) -> str:
    return f"This agent has the tools {_listed(sorted(turn.tools))}." if turn.tools else "This agent has no tools."


def _listed(names: Sequence[str]) -> str:
    *others, last = [f"`{name}`" for name in dict.fromkeys(names)]
    return f"{', '.join(others)} and {last}" if others else last


_NUMBER = r"(?P<number>\d[\d,]{0,8})"


def _number(match: re.Match[str]) -> int:
    return int((match["number"] or "0").replace(",", ""))


def _fail(turn: Turn, match: re.Match[str]) -> Plan:
    return Plan(lorem(min(_number(match), MAX_WORDS)), ending="fail")


def _hang(turn: Turn, match: re.Match[str]) -> Plan:
    return Plan(lorem(min(_number(match), MAX_WORDS)), ending="hang")


def _count_down(turn: Turn, match: re.Match[str]) -> Plan:
    start = _number(match)
    if start > MAX_COUNTDOWN:
        return Plan(f"I count down from {MAX_COUNTDOWN} at most.")
    return Plan(", ".join(map(str, range(start, -1, -1))), pace="countdown")


def _write(turn: Turn, match: re.Match[str]) -> Plan:
    words = _number(match)
    return Plan(lorem(min(words, MAX_WORDS)), ending="length" if words > MAX_WORDS else "stop")


def _recall(turn: Turn, match: re.Match[str]) -> Plan:
    what = (match["what"] or "name").lower()
    value = Memory([*turn.told, turn.text]).attribute(what)
    return Plan(f"Your {what} is {value}." if value else f"You have not told me your {what} yet.")


def _recall_all(turn: Turn, match: re.Match[str]) -> Plan:
    facts = Memory([*turn.told, turn.text]).facts[-20:]
    if not facts:
        return Plan("You have not told me anything to remember yet.")
    return Plan("You told me that:\n\n" + "\n".join(f"- {fact}" for fact in facts))


def _quote_earlier(turn: Turn, match: re.Match[str]) -> Plan:
    if not turn.earlier:
        return Plan("This is the first thing that you say to me.")
    first = " first" in match[0].lower()
    text = excerpt(turn.earlier[0 if first else -1], 5 * _QUOTE)
    return Plan(f'{"First" if first else "Last"} you said: "{text}"')


def _remember(turn: Turn) -> Plan | None:
    told = Memory([turn.text])
    if name := told.attribute("name"):
        return Plan(f"Nice to meet you, {name}! I will remember your name.")
    return Plan(f"I will remember: {'; '.join(told.facts)}.") if told.facts else None


def _greet(turn: Turn, match: re.Match[str]) -> Plan:
    name = Memory(turn.told).attribute("name")
    return Plan(f"Hello{f', {name}' if name else ''}! {_INTRODUCTION} Write **help** to see what you can try.")


def _show_markdown(turn: Turn, match: re.Match[str]) -> Plan:
    return Plan(MARKDOWN)


def _help(turn: Turn, match: re.Match[str]) -> Plan:
    examples = [example for phrase in PHRASES for example in phrase.examples.items()]
    rows = "\n".join(f"- `{say}`: {does}" for say, does in examples)
    return Plan(f"{_INTRODUCTION} Try one of these:\n\n{rows}\n\n{_own_tools(turn)}")


_INTRODUCTION = "I am the offline model: I need no key and no network, and I know a few phrases."


def _unknown(turn: Turn) -> Plan:
    said = excerpt(turn.text.strip(), _QUOTE)
    if turn.rest is not None:
        return Plan(f'{_INTRODUCTION} I have thought about "{said}", and know no more than before.')
    unknown = f' What you said, "{said}", is none of them.' if said else ""
    return Plan(f"{_INTRODUCTION}{unknown} Write **help** to see what you can try.")


PHRASES: Sequence[Phrase] = (
    Phrase(_echo, {"repeat after me: TEXT": "says it back; `echo TEXT` does too"}),
    Phrase(_think, {"think about TEXT": "shows a thought, then answers TEXT; so does `think first: TEXT`"}),
    Phrase(
        _call_tools,
        {
            "What time is it in Tokyo, and what is 12*34?": "calls two tools at once, `current_time` and `calculate`",
            "search the documents for close codes": "calls `search_documents` and lists what it finds",
            "wait 5 seconds": "calls `slow_task`",
            "is the server healthy?": "calls `server_health`",
            "what do the metrics say about exchanges?": "calls `query_metrics`; `list the metrics` lists them",
            "show me the last 5 lines of the log": "calls `tail_log`; `the latest errors in the log` too",
            "ask NAME: TEXT": "a leader asks this expert; it also finds who has the tool for what you say",
            'use the tool NAME with {"a": 1}': "calls any tool that the agent has",
            'call NAME(a=1, b="x")': "does the same; `call transfer_to_NAME()` hands over to another agent",
        },
    ),
    Phrase(
        _when(rf"fail (?:at once|immediately|after {_NUMBER} (?:tokens?|words?))", _fail),
        {"fail at once": "the model fails before its first word", "fail after 20 tokens": "it fails in the middle"},
    ),
    Phrase(
        _when(rf"hang (?:forever|after {_NUMBER} (?:tokens?|words?))", _hang),
        {"hang forever": "the model never answers", "hang after 20 tokens": "it falls silent in the middle"},
    ),
    Phrase(
        _when(rf"count (?:slowly )?down (?:slowly )?from {_NUMBER}", _count_down),
        {"count down slowly from 50": f"five numbers a second, from {MAX_COUNTDOWN} at most: time to stop it"},
    ),
    Phrase(
        _when(rf"write (?:me )?(?!0){_NUMBER} words?(?: .*)?", _write),
        {"write 300 words": f"filler text of exactly so many words, {MAX_WORDS} at most"},
    ),
    Phrase(
        _when(r"(?:show me|show|write) (?:some |a bit of )?markdown", _show_markdown),
        {"show me some markdown": "headings, a list, a table, code, a link"},
    ),
    Phrase(
        _when(
            r"what did i (?:just )?(?:say|ask|write|tell)(?: to)?(?: you)? (?:first|last|before|just now)"
            r"|what was my (?:first|last|previous) (?:message|question|text)",
            _quote_earlier,
        ),
        {"what did I say first?": "quotes you; `what did I say last?` too"},
    ),
    Phrase(
        _when(
            r"(?:what's|what is|what are|what was|do you (?:know|remember)) my (?P<what>[a-z' -]{1,41}?)|who am i",
            _recall,
        ),
        {"what is my name?": "knows what you told it, such as `my favourite colour is blue`"},
    ),
    Phrase(
        _when(r"what (?:did i (?:tell|ask) you|do you remember|do you know about me)(?: .*)?", _recall_all),
        {"what did I tell you to remember?": "lists what you told it"},
    ),
    Phrase(_remember, {"my name is Zorblax": "remembers it", "remember that the key is under the mat": "remembers it"}),
    Phrase(
        _when(r"help(?: me)?|/help|what you (?:can )?do|what can (?:you do|i (?:say|ask|try|write))(?: .*)?", _help),
        {"help": "this list"},
    ),
    Phrase(_when(r"(?:hi|hello|hey|good (?:morning|day|afternoon|evening))(?: there)?", _greet), {}),
)
