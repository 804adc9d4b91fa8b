"""Plans the offline model's answer to a conversation. Pure; the model only carries out the plan.

`PHRASES` holds all phrases: the first one with a plan for the last human message wins, and `help` shows the same table.
Text in a tool's result or a document has no effect.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Literal

from langchain_core.messages import BaseMessage, ToolCall

from agentic_backend.offline.calls import CallRequest, clause_pattern, delegated, requested_calls
from agentic_backend.offline.conversation import Conversation, Memory, describe_results, excerpt, summary_of, title_of
from agentic_backend.offline.quotes import quoted

TITLE_PROMPT_START = "You name conversations."
SUMMARY_PROMPT_START = "You summarise conversations."
MAX_WORDS = 20_000
MAX_COUNTDOWN = 10_000

_QUOTE = 200

Ending = Literal["stop", "length", "fail", "hang"]


@dataclass(frozen=True, slots=True)
class Plan:
    """The model's answer: thought, text and calls, in this order, and how it ends."""

    text: str = ""
    thought: str = ""
    calls: tuple[ToolCall, ...] = ()
    ending: Ending = "stop"
    pace: Literal["words", "countdown"] = "words"


Answer = Callable[[Conversation], Plan | None]
"""Returns the plan for a conversation, or None if the phrase does not match."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """`examples` maps what a person may write to what then happens."""

    answer: Answer
    examples: Mapping[str, str]


def plan_answer(messages: Sequence[BaseMessage], tools: Mapping[str, str]) -> Plan:
    """The plan for a conversation. `tools` maps the names of the available tools to their descriptions."""
    talk = Conversation(messages, tools)
    if talk.is_prompted(TITLE_PROMPT_START):
        return Plan(title_of(talk.text))
    if talk.is_prompted(SUMMARY_PROMPT_START):
        return Plan(summary_of([*talk.earlier, talk.text]))
    if talk.results:
        return _call_tools(_without_thinking(talk) or talk) or Plan(describe_results(talk.results))
    plan = _plan(talk)
    return replace(plan, text="\n\n".join(filter(None, [talk.images, plan.text]))) if talk.images else plan


def _plan(talk: Conversation) -> Plan:
    return next((plan for phrase in PHRASES if (plan := phrase.answer(talk))), None) or _unknown(talk)


def _when(body: str, answer: Callable[[Conversation, re.Match[str]], Plan]) -> Answer:
    """Answers a text that has a clause matching `body`."""
    pattern = clause_pattern(body)

    def matching(talk: Conversation) -> Plan | None:
        matches = (pattern.fullmatch(clause) for clause in talk.clauses)
        return next((answer(talk, match) for match in matches if match), None)

    return matching


_ECHO = re.compile(r"\s*(?:please\s+)?(?:repeat\s+after\s+me\s*[:,]?|echo\s*:?)\s+(?P<text>\S.*)", re.I | re.S)
_THINK = re.compile(
    r"\s*(?:please\s+)?think(?:\s+(?:first|hard|aloud|step\s+by\s+step))?(?:\s+about\s|\s*[:,])\s*(?P<text>\S.*)",
    re.I | re.S,
)


def _echo(talk: Conversation) -> Plan | None:
    match = _ECHO.match(talk.text)
    return Plan(match["text"]) if match else None


def _think(talk: Conversation) -> Plan | None:
    rest = _without_thinking(talk)
    if rest is None:
        return None
    thought = (
        f'I am asked: "{excerpt(rest.text, _QUOTE)}" First I look for a phrase that I know. '
        "Then I see whether a tool has to help. Now I know what to do."
    )
    return replace(_plan(rest), thought=thought)


def _without_thinking(talk: Conversation) -> Conversation | None:
    """The conversation without the leading "think about" of its text, removed at most once; None if it has none."""
    match = _THINK.match(talk.text) if talk.rest is None else None
    return replace(talk, rest=match["text"].strip()) if match else None


def _call_tools(talk: Conversation) -> Plan | None:
    """The requested calls that are not made yet: after a handoff, the next agent makes the rest."""
    requests = delegated(requested_calls(talk.text), talk.tools)
    calls = talk.pending_calls(requests)
    if calls:
        names = [call["name"] for call in calls]
        beside = len(calls) > 1 or "tell me what you do" in talk.text.lower()
        return Plan(f"Let me look that up with {_listed(names)}." if beside else "", calls=calls)
    return Plan(_why_no_call(talk, requests)) if requests and not talk.results else None


def _why_no_call(talk: Conversation, requests: Sequence[CallRequest]) -> str:
    missing = [request.name for request in requests if request.name not in talk.tools]
    if missing:
        return f"For that I need {_listed(missing)}, which this agent does not have. {_own_tools(talk)}"
    return (
        f"I could not read the arguments of {_listed([request.name for request in requests])}. "
        'Write `use the tool NAME with {"a": 1}` or `call NAME(a=1, b="x")`.'
    )


def _own_tools(talk: Conversation) -> str:
    return f"This agent has the tools {_listed(sorted(talk.tools))}." if talk.tools else "This agent has no tools."


def _listed(names: Sequence[str]) -> str:
    *others, last = [f"`{name}`" for name in dict.fromkeys(names)]
    return f"{', '.join(others)} and {last}" if others else last


_NUMBER = r"(?P<number>\d[\d,]{0,8})"


def _number(match: re.Match[str]) -> int:
    return int((match["number"] or "0").replace(",", ""))


def _filler(ending: Ending) -> Callable[[Conversation, re.Match[str]], Plan]:
    """Answers with the requested amount of filler text, and ends with `ending`."""

    def answer(talk: Conversation, match: re.Match[str]) -> Plan:
        words = _number(match)
        is_cut = ending == "stop" and words > MAX_WORDS
        return Plan(lorem(min(words, MAX_WORDS)), ending="length" if is_cut else ending)

    return answer


def _count_down(talk: Conversation, match: re.Match[str]) -> Plan:
    start = _number(match)
    if start > MAX_COUNTDOWN:
        return Plan(f"I count down from {MAX_COUNTDOWN} at most.")
    return Plan(", ".join(map(str, range(start, -1, -1))), pace="countdown")


def _recall(talk: Conversation, match: re.Match[str]) -> Plan:
    what = (match["what"] or "name").lower()
    value = Memory([*talk.told, talk.text]).attribute(what)
    return Plan(f"Your {what} is {value}." if value else f"You have not told me your {what} yet.")


def _recall_all(talk: Conversation, match: re.Match[str]) -> Plan:
    facts = Memory([*talk.told, talk.text]).facts[-20:]
    if not facts:
        return Plan("You have not told me anything to remember yet.")
    return Plan("You told me that:\n\n" + "\n".join(f"- {fact}" for fact in facts))


def _quote_earlier(talk: Conversation, match: re.Match[str]) -> Plan:
    if not talk.earlier:
        return Plan("This is the first thing that you say to me.")
    first = " first" in match[0].lower()
    text = excerpt(talk.earlier[0 if first else -1], 5 * _QUOTE)
    return Plan(f'{"First" if first else "Last"} you said: "{text}"')


def _remember(talk: Conversation) -> Plan | None:
    told = Memory([talk.text])
    if name := told.attribute("name"):
        return Plan(f"Nice to meet you, {name}! I will remember your name.")
    return Plan(f"I will remember: {'; '.join(told.facts)}.") if told.facts else None


def _greet(talk: Conversation, match: re.Match[str]) -> Plan:
    name = Memory(talk.told).attribute("name")
    return Plan(f"Hello{f', {name}' if name else ''}! {_INTRODUCTION} Write **help** to see what you can try.")


def _help(talk: Conversation, match: re.Match[str]) -> Plan:
    examples = [example for phrase in PHRASES for example in phrase.examples.items()]
    rows = "\n".join(f"- `{say}`: {does}" for say, does in examples)
    return Plan(f"{_INTRODUCTION} Try one of these:\n\n{rows}\n\n{_own_tools(talk)}")


_INTRODUCTION = "I am the offline model: I need no key and no network, and I know a few phrases."


def _unknown(talk: Conversation) -> Plan:
    if (answer := quoted(talk.messages, talk.text)) is not None:
        return Plan(answer)
    said = excerpt(talk.text.strip(), _QUOTE)
    if talk.rest is not None:
        return Plan(f'{_INTRODUCTION} I have thought about "{said}", and know no more than before.')
    unknown = f' What you said, "{said}", is none of them.' if said else ""
    return Plan(f"{_INTRODUCTION}{unknown} Write **help** to see what you can try.")


_MARKDOWN = """\
# Markdown, as agents write it

A paragraph with **bold**, *italic* and `code`, and a [link](https://langchain-ai.github.io/langgraph/).

## A list

1. Ask something.
2. Watch the answer arrive word by word.
   - Stop it whenever you like.
   - Reload the page: it goes on.

## A table

| Event | When |
|---|---|
| `started` | the exchange begins |
| `delta` | a piece of text |
| `final` | always last, exactly once |

## Code

```python
def greet(name: str) -> str:
    return f"Hello, {name}!"
```

> A quotation closes the tour.
"""

_LOREM = (
    "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore et dolore magna "
    "aliqua enim ad minim veniam quis nostrud exercitation ullamco laboris nisi aliquip ex ea commodo consequat duis "
    "aute irure in reprehenderit voluptate velit esse cillum fugiat nulla pariatur excepteur sint occaecat cupidatat "
    "non proident sunt culpa qui officia deserunt mollit anim id est laborum"
).split()
_SENTENCE_LENGTHS = (8, 12, 6, 10, 14)
_PARAGRAPH = sum(_SENTENCE_LENGTHS)


def lorem(words: int) -> str:
    """Exactly `words` words of filler text, in sentences and paragraphs; always the same."""
    text, supply, left = "", cycle(_LOREM), words
    lengths = cycle(_SENTENCE_LENGTHS)
    while left > 0:
        sentence = list(islice(supply, min(next(lengths), left)))
        written = words - left
        left -= len(sentence)
        if written:
            text += "\n\n" if written % _PARAGRAPH == 0 else " "
        text += " ".join(sentence).capitalize() + "."
    return text


PHRASES: Sequence[Phrase] = (
    Phrase(_echo, {"repeat after me: TEXT": "says it back; `echo TEXT` does too"}),
    Phrase(_think, {"think about TEXT": "shows a thought, then answers TEXT; so does `think first: TEXT`"}),
    Phrase(
        _call_tools,
        {
            "What time is it in Tokyo, and what is 12*34?": "calls two tools at once, `current_time` and `calculate`",
            "search the documents for close codes": "calls `search_documents` and lists what it finds",
            "wait 5 seconds": "calls `slow_task`",
            "add a todo: water the plants": "calls `create_todo`; `list my todos` lists them",
            "take a note: the key is under the mat": "calls `create_note`; `list my notes` lists them",
            "search my conversations for keys": "calls `search_sessions`, which finds what was said before",
            "is the server healthy?": "calls `server_health`",
            "what do the metrics say about exchanges?": "calls `query_metrics`; `list the metrics` lists them",
            "show me the last 5 lines of the log": "calls `tail_log`; `the latest errors in the log` too",
            "ask NAME: TEXT": "a leader asks this expert; it also finds who has the tool for what you say",
            'use the tool NAME with {"a": 1}': "calls any tool that the agent has",
            'call NAME(a=1, b="x")': "does the same; `call transfer_to_NAME()` hands over to another agent",
        },
    ),
    Phrase(
        _when(rf"fail (?:at once|immediately|after {_NUMBER} (?:tokens?|words?))", _filler("fail")),
        {"fail at once": "the model fails before its first word", "fail after 20 tokens": "it fails in the middle"},
    ),
    Phrase(
        _when(rf"hang (?:forever|after {_NUMBER} (?:tokens?|words?))", _filler("hang")),
        {"hang forever": "the model never answers", "hang after 20 tokens": "it falls silent in the middle"},
    ),
    Phrase(
        _when(rf"count (?:slowly )?down (?:slowly )?from {_NUMBER}", _count_down),
        {"count down slowly from 50": f"five numbers a second, from {MAX_COUNTDOWN} at most: time to stop it"},
    ),
    Phrase(
        _when(rf"write (?:me )?(?!0){_NUMBER} words?(?: .*)?", _filler("stop")),
        {"write 300 words": f"filler text of exactly so many words, {MAX_WORDS} at most"},
    ),
    Phrase(
        _when(r"(?:show me|show|write) (?:some |a bit of )?markdown", lambda talk, match: Plan(_MARKDOWN)),
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
