"""A conversation as the offline model reads it: the current request, earlier facts, and tool results. Pure."""

import hashlib
import json
import re
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolCall, ToolMessage

from agentic_backend.mcp import DELEGATION_PREFIX
from agentic_backend.offline.calls import CallRequest, clause_pattern, clauses

SUMMARY_HEADING = "Summary of the conversation so far:"

_RESULT_EXCERPT, _LINES_EXCERPT, _EXPERT_EXCERPT, _PASSAGE_EXCERPT = 600, 2_000, 4_000, 240
_SUMMARY_LINES, _SUMMARY_LINE = 30, 200
_TITLE_WORDS, _TITLE_LENGTH = 6, 60
# The number of characters at the start of each text that are searched for facts.
_READ = 20_000


@dataclass(frozen=True)
class Conversation:
    messages: Sequence[BaseMessage]
    """All messages, oldest first."""
    tools: Mapping[str, str]
    """The descriptions of the available tools, by name."""
    rest: str | None = None
    """The last text without its "think about"; None if it has none."""

    @cached_property
    def text(self) -> str:
        """The person's last message; empty if there is none."""
        return self.rest if self.rest is not None else "".join(message.text for message in self._up_to_ask[-1:])

    @cached_property
    def images(self) -> str:
        """What the images of the person's last message are; empty if it has none."""
        last = self._up_to_ask[-1].content if self._up_to_ask else ""
        blocks = [block for block in last if isinstance(block, dict) and block.get("type") == "image"]
        shown = [f"{block['mime_type']} of {len(b64decode(block['base64'])):,} bytes" for block in blocks]
        return (
            f"I see {'an image' if len(shown) == 1 else f'{len(shown)} images'}: {', '.join(shown)}." if shown else ""
        )

    @cached_property
    def clauses(self) -> list[str]:
        """The clauses of `text`."""
        return [clause for _, clause in clauses(self.text)]

    @cached_property
    def earlier(self) -> list[str]:
        """The person's earlier messages, oldest first."""
        return [message.text for message in self._up_to_ask[:-1] if isinstance(message, HumanMessage)]

    @cached_property
    def told(self) -> list[str]:
        """`earlier`, and the summaries of messages that the conversation no longer contains."""
        before = self._up_to_ask[:-1]
        return [said.text for said in before if isinstance(said, HumanMessage) or SUMMARY_HEADING in said.text]

    @cached_property
    def results(self) -> list[tuple[str, ToolMessage]]:
        """The tool results since the person's last message, each with its tool's name."""
        names = {call["id"]: call["name"] for call in self._made}
        return [
            (result.name or names.get(result.tool_call_id, "tool"), result)
            for result in self._since_ask
            if isinstance(result, ToolMessage)
        ]

    def is_prompted(self, start: str) -> bool:
        """Whether a system message starts with `start`."""
        return any(isinstance(message, SystemMessage) and message.text.startswith(start) for message in self.messages)

    def pending_calls(self, requests: Sequence[CallRequest]) -> tuple[ToolCall, ...]:
        """The possible calls of `requests` that were not made since the person's last message.

        A call that a person has edited keeps its id, so it counts as made.
        """
        made_ids = {call["id"] for call in self._made}
        made = [(call["name"], call["args"]) for call in self._made]
        return tuple(
            ToolCall(name=request.name, args=request.args, id=call_id)
            for index, request in enumerate(requests)
            if request.name in self.tools
            and request.args is not None
            and (call_id := f"call_{self._digest}_{index}") not in made_ids
            and (request.name, request.args) not in made
        )

    @cached_property
    def _asked_at(self) -> int:
        """The index after the last human message; 0 if there is none."""
        return max((place for place, said in enumerate(self.messages, 1) if isinstance(said, HumanMessage)), default=0)

    @cached_property
    def _up_to_ask(self) -> Sequence[BaseMessage]:
        return self.messages[: self._asked_at]

    @cached_property
    def _since_ask(self) -> Sequence[BaseMessage]:
        return self.messages[self._asked_at :]

    @cached_property
    def _made(self) -> list[ToolCall]:
        return [call for message in self._since_ask if isinstance(message, AIMessage) for call in message.tool_calls]

    @cached_property
    def _digest(self) -> str:
        """A hash of the messages up to the last human one, with the ids of earlier calls, so that ids are unique."""
        said = hashlib.sha256()
        for message in self._up_to_ask:
            ids = [call["id"] for call in message.tool_calls] if isinstance(message, AIMessage) else []
            said.update(repr((message.type, message.text, ids)).encode())
        return said.hexdigest()[:16]


_REMEMBER = clause_pattern(r"remember(?: that|:| this:) (?P<fact>.{1,500}?)")
_ATTRIBUTE = clause_pattern(
    r"(?:by the way,? )?my (?P<what>[a-z][a-z' -]{0,40}?) (?P<verb>is|are) (?P<value>\w.{0,199}?)"
)
_CALLED = clause_pattern(r"(?:i am called|i'm called|(?:you can )?call me) (?P<value>\w.{0,99}?)")
_SECOND_PERSON = {
    "i": "you",
    "i'm": "you're",
    "i am": "you are",
    "i was": "you were",
    "i've": "you've",
    "me": "you",
    "my": "your",
    "mine": "yours",
    "myself": "yourself",
}
_FIRST_PERSON = re.compile(r"\b(?:i am|i was|i'm|i've|i|me|my|mine|myself)\b", re.IGNORECASE)


class Memory:
    """The facts in `texts`, oldest first. If two contradict each other, the later one wins."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._attributes: dict[str, tuple[str, str]] = {}
        """From "my WHAT is VALUE": verb and value, by WHAT."""
        self._remembered: dict[str, None] = {}
        """The other facts, in order; the values are unused."""
        for text in texts:
            for line in text[:_READ].splitlines():
                for _, clause in clauses(line.removeprefix("- ")):
                    self._read(clause)

    def attribute(self, what: str) -> str | None:
        """The value of "my `what`": after "my name is Zorblax", `attribute("name")` is "Zorblax"."""
        return self._attributes.get(what.lower(), (None, None))[1]

    @property
    def facts(self) -> list[str]:
        """All facts as clauses in the second person: "your name is Zorblax", "you like tea"."""
        attributes = [f"your {what} {verb} {value}" for what, (verb, value) in self._attributes.items()]
        return attributes + list(self._remembered)

    def _read(self, clause: str) -> None:
        remembered = _REMEMBER.fullmatch(clause)
        fact = remembered["fact"] if remembered else clause
        if match := _ATTRIBUTE.fullmatch(fact):
            what, value = match["what"].lower(), match["value"]
            self._attributes[what] = (match["verb"].lower(), _name(value) if what == "name" else _addressed(value))
        elif (match := _CALLED.fullmatch(fact)) and match["value"][0].isupper():
            self._attributes["name"] = ("is", _name(match["value"]))
        elif remembered:
            self._remembered[_addressed(fact)] = None


def _name(value: str) -> str:
    return re.split(r" (?:and|but|from|so) ", value)[0]


def _addressed(fact: str) -> str:
    """`fact` in the second person: "my dog likes me" becomes "your dog likes you"."""
    return _FIRST_PERSON.sub(lambda match: _SECOND_PERSON[match[0].lower()], fact)


# The tools whose results are sentences.
_SPEAK_IN_SENTENCES = frozenset({"current_time", "calculate", "slow_task", "server_health"})
# The tools whose results are lines, which Markdown would join.
_SPEAK_IN_LINES = frozenset({"list_metrics", "query_metrics", "tail_log"})


def describe_results(results: Sequence[tuple[str, ToolMessage]]) -> str:
    """The results of the calls as Markdown. `results` holds (tool name, result)."""
    sentences, paragraphs = [], []
    for name, result in results:
        if result.status != "error" and name in _SPEAK_IN_SENTENCES:
            sentences.append(result.text.strip().rstrip("."))
        else:
            paragraphs.append(_describe(name, result.status == "error", result.text.strip()))
    if sentences:
        paragraphs.insert(0, "; ".join(sentences) + ".")
    return "\n\n".join(paragraphs)


def _describe(name: str, has_failed: bool, said: str) -> str:
    text = excerpt(said, _RESULT_EXCERPT)
    if has_failed:
        return f"The tool `{name}` failed: {text or 'it gave no reason.'}"
    if name.startswith(DELEGATION_PREFIX):
        return f"**{name.removeprefix(DELEGATION_PREFIX)}** says:\n\n{excerpt(said, _EXPERT_EXCERPT)}"
    if name in _SPEAK_IN_LINES:
        return f"The tool `{name}` answered:\n\n```\n{excerpt(said, _LINES_EXCERPT)}\n```"
    if name == "search_documents" and (passages := _passages(said)):
        return "This is what the documents say:\n\n" + "\n".join(passages)
    return f"The tool `{name}` answered:\n\n{text}" if text else f"The tool `{name}` answered with nothing."


def _passages(found: str) -> list[str]:
    """A list item for each passage in a search result; empty if `found` is not a search result."""
    try:
        return [
            f"- **{hit['title']}** ({hit['heading']}): {_in_one_line(hit['text'])} [{hit['number']}]"
            for hit in json.loads(found)
        ]
    except (ValueError, TypeError, KeyError, RecursionError):
        return []


def _in_one_line(markdown: str) -> str:
    without_code = re.sub(r"```.*?(?:```|\Z)", "…", markdown, flags=re.S)
    return excerpt(" ".join(without_code.split()), _PASSAGE_EXCERPT)


def excerpt(text: str, limit: int) -> str:
    """`text`, cut between words if it is longer than `limit` characters."""
    return text if len(text) <= limit else text[:limit].rsplit(maxsplit=1)[0] + " …"


_INSIGNIFICANT = frozenset(
    "a an and are at be by can could did do does for from give have hello hey hi how i in is it let like me my of on "
    "or please show tell that the then there this to us was we what what's when where which who why will with would "
    "write you your".split()
)


def title_of(text: str) -> str:
    """The first few significant words of `text`, capitalised."""
    words = [word.strip(".,;:!?\"'()[]`*#") for word in text[: 20 * _TITLE_LENGTH].split()]
    words = [word for word in words if word]
    significant = [word for word in words if word.lower() not in _INSIGNIFICANT] or words
    title = " ".join(word[0].upper() + word[1:] for word in significant[:_TITLE_WORDS])
    return excerpt(title, _TITLE_LENGTH) or "New conversation"


def summary_of(texts: Iterable[str]) -> str:
    """A summary with the last _SUMMARY_LINES lines of the person.

    In a transcript, only the lines of the user and of an earlier summary count.
    """
    lines = [line.strip() for text in texts for line in text.splitlines() if line.strip()]
    said = [match[1] for line in lines if (match := re.match(r"(?:(?:user|human)\s*:|-)\s*(.+)", line, re.I))]
    kept = list(dict.fromkeys(said or lines))[-_SUMMARY_LINES:]
    return "\n".join([SUMMARY_HEADING, *(f"- {excerpt(line, _SUMMARY_LINE)}" for line in kept)])
