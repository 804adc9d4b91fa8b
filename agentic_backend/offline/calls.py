"""Finds the tool calls that a text requests from the offline model, and the expert for a tool that the agent lacks.

Pure functions of one text, without the conversation. A phrase must start a clause, so that a word in the middle of a
sentence requests nothing. A call that names its tool may be anywhere.
"""

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from agentic_backend.mcp import DELEGATION_PREFIX
from agentic_backend.syntax_tree import parsed

# The number of characters at the start of a text that are searched for phrases.
_WINDOW = 4_000
# The largest number of calls for one text.
_MAX_CALLS = 20

_CLAUSE_BREAK = re.compile(
    r"\n+|(?<=[.?!;])\s+"
    r"|(?:,?\s(?:and then|and|then|but)|,)\s+"
    r"(?=(?:what|how much|calculate|compute|search|look|find|wait|use the|call|tell|please|remember|i|my"
    r"|is the|is this|show me|check the|list the)\b|ask [\w-]+:)",
    re.IGNORECASE,
)
_COURTESY_BEFORE = (
    r"(?:(?:please|now|then|and|also|so|well|ok|okay|hi|hello|hey|can you|could you|would you|tell me)[,!]? )*"
)
_COURTESY_AFTER = r"(?:,? (?:please|now|right now|for me|today|currently|at the moment|thanks|thank you))*"


def clause_pattern(body: str) -> re.Pattern[str]:
    """A pattern that fully matches a clause with `body`, with or without courtesies around it."""
    return re.compile(f"{_COURTESY_BEFORE}(?:{body}){_COURTESY_AFTER}", re.IGNORECASE)


def clauses(text: str) -> list[tuple[int, str]]:
    """The clauses of `text` as (start, clause): words separated by single spaces, no final punctuation."""
    found, start = [], 0
    head = text[:_WINDOW].replace("\u2019", "'")
    for end, resume in [*(match.span() for match in _CLAUSE_BREAK.finditer(head)), (len(head), 0)]:
        if clause := " ".join(head[start:end].split()).rstrip(".?!;, "):
            found.append((start, clause))
        start = resume
    return found


@dataclass(frozen=True, slots=True)
class CallRequest:
    """A tool call that a text requests."""

    name: str
    args: dict[str, Any] | None = field(default_factory=dict)
    """None if the arguments can't be parsed."""
    said: str = field(default="", compare=False)
    """The words that request it."""


def requested_calls(text: str) -> list[CallRequest]:
    """The calls that `text` requests, in the order of the text, even of unknown tools."""
    named = list(islice(_named_calls(text), _MAX_CALLS))
    for start, end, _ in named:
        # Replace the call by newlines, so that the rest keeps its positions and stays separated.
        text = text[:start] + "\n" * (end - start) + text[end:]
    placed = [(start, request) for start, _, request in named]
    for start, clause in clauses(text):
        placed += [(start, replace(request, said=clause)) for request in _phrased_calls(clause)]
    return [request for _, request in sorted(placed, key=lambda entry: entry[0])][:_MAX_CALLS]


def delegated(requests: Iterable[CallRequest], tools: Mapping[str, str]) -> list[CallRequest]:
    """`requests`, with a request for a missing tool replaced by a question to the expert that seems to have it.

    `tools` maps names to descriptions. A request that matches no expert stays unchanged.
    """
    experts = {name: _words(description) for name, description in tools.items() if name.startswith(DELEGATION_PREFIX)}
    asked: list[CallRequest] = []
    for request in requests:
        expert = None if request.name in tools else _expert_for(request.name, experts)
        if expert is not None:
            request = CallRequest(expert, {"question": request.said}, request.said)
        # Several calls of one clause become one question.
        if expert is None or request not in asked:
            asked.append(request)
    return asked


def _expert_for(tool: str, experts: Mapping[str, frozenset[str]]) -> str | None:
    """The first expert whose description shares the most words with the tool's name; None without a shared word."""
    shared = {name: len(_words(tool) & words) for name, words in experts.items()}
    best = max(shared, key=lambda name: shared[name], default=None)
    return best if best is not None and shared[best] else None


def _words(text: str) -> frozenset[str]:
    """The words of `text` in lower case, plurals as singulars."""
    return frozenset(word.removesuffix("s") for word in re.findall(r"[a-z]+", text.lower()))


_TOOL_WITH_JSON = re.compile(
    r"\b(?:use|call|run)\s+the\s+"
    r"(?:tool\s+[`'\"]?(?P<name>\w[\w-]*(?:\.[\w-]+)*)[`'\"]?(?:\s+with\s+(?=\{))?"
    r"|[`'\"]?(?P<tool>\w[\w-]*)[`'\"]?\s+tool\s+with\s+(?=\{))",
    re.IGNORECASE,
)
_CALL_WITH_KEYWORDS = re.compile(r"\bcall\s+`?(?P<name>[a-z_][\w-]*)(?P<tool>)(?=\()", re.IGNORECASE)
_JSON_NAMES = {"true": True, "false": False, "null": None}
# The errors of Python's parsers for invalid text.
_UNREADABLE = (ValueError, TypeError, RecursionError)


def _named_calls(text: str) -> Iterator[tuple[int, int, CallRequest]]:
    """The calls that name their tool, in order: (start, end, request)."""
    matches = [*_TOOL_WITH_JSON.finditer(text), *_CALL_WITH_KEYWORDS.finditer(text[:_WINDOW])]
    read_up_to = 0
    for match in sorted(matches, key=re.Match.start):
        if match.start() >= read_up_to:
            args, read_up_to = _read_arguments(text, match.end())
            said = text[match.start() : read_up_to]
            yield match.start(), read_up_to, CallRequest(match["name"] or match["tool"], args, said)


def _read_arguments(text: str, start: int) -> tuple[dict[str, Any] | None, int]:
    """The arguments at `start`, None if they can't be parsed, and the position of their end."""
    if text.startswith("(", start):
        return _read_keywords(text[:_WINDOW], start)
    if not text.startswith("{", start):
        return {}, start
    try:
        args, end = json.JSONDecoder().raw_decode(text, start)
        return _as_json(args), end
    except _UNREADABLE:
        return None, len(text)


def _read_keywords(text: str, start: int) -> tuple[dict[str, Any] | None, int]:
    """The arguments of `(a=1, b="x")` at `start`; they end at the first parenthesis that completes them."""
    for closing in list(re.finditer(r"\)", text[start:]))[:_MAX_CALLS]:
        end = start + closing.end()
        try:
            call = parsed(f"f{text[start:end]}", "eval").body
        except (SyntaxError, MemoryError, *_UNREADABLE):
            continue
        if not isinstance(call, ast.Call) or call.args:
            return None, end
        try:
            return _as_json({keyword.arg or "": _literal(keyword.value) for keyword in call.keywords}), end
        except _UNREADABLE:
            return None, end
    return None, len(text)


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Name) and node.id in _JSON_NAMES:
        return _JSON_NAMES[node.id]
    return ast.literal_eval(node)


def _as_json(args: dict[str, Any]) -> dict[str, Any]:
    """`args` after a round trip through JSON. Raises ValueError or TypeError for NaN, a set and the like."""
    plain: dict[str, Any] = json.loads(json.dumps(args, allow_nan=False))
    return plain


def _phrased_calls(clause: str) -> Sequence[CallRequest]:
    return next((requests(match) for pattern, requests in _PHRASED if (match := pattern.fullmatch(clause))), ())


_Requests = Callable[[re.Match[str]], Sequence[CallRequest]]
"""Returns the calls that a clause requests, from the match of its phrase."""


def _without_arguments(tool: str) -> _Requests:
    return lambda match: [CallRequest(tool)]


def _time(match: re.Match[str]) -> list[CallRequest]:
    named = match["cities"] or "UTC"
    # A comma without "and" may belong to one place: "Paris, France".
    several = re.search(r"\sand\s", named)
    cities = re.split(r",\s*(?:and\s+)?|\s+and\s+", named) if several else [named]
    return [CallRequest("current_time", {"city": city.strip().removeprefix("in ")}) for city in cities if city.strip()]


_SPOKEN_OPERATORS = (
    (re.compile(r"(?<=\d),(?=\d{3}\b)"), ""),
    (re.compile(r"\bplus\b", re.IGNORECASE), "+"),
    (re.compile(r"\bminus\b", re.IGNORECASE), "-"),
    (re.compile(r"\b(?:times|multiplied by)\b|[\u00d7\u00b7]|(?<=[\d\s)])x(?=[\d\s(])", re.IGNORECASE), "*"),
    (re.compile(r"\b(?:divided by|over)\b|\u00f7", re.IGNORECASE), "/"),
    (re.compile(r"\bto the power of\b|\^", re.IGNORECASE), "**"),
    (re.compile(r"\s*(?:%|\bpercent)\s+of\b", re.IGNORECASE), " / 100 *"),
)
_ARITHMETIC = re.compile(r"[-+(\d.][-+*/%().\d\s]*[\d).]")
_OPERATION = re.compile(r"[\d.)]\s*[-+*/%]")


def _calculation(match: re.Match[str]) -> list[CallRequest]:
    text = match["expressions"]
    for spoken, operator in _SPOKEN_OPERATORS:
        text = spoken.sub(operator, text)
    expressions = (part.strip(" =?") for part in re.split(r",\s*(?:and\s+)?|\s+and\s+", text))
    return [
        CallRequest("calculate", {"expression": expression})
        for expression in expressions
        if _ARITHMETIC.fullmatch(expression) and _OPERATION.search(expression)
    ]


def _search(match: re.Match[str]) -> list[CallRequest]:
    return [CallRequest("search_documents", {"query": match["query"].strip(" '\"`“”")})]


def _with_text(tool: str, argument: str) -> _Requests:
    return lambda match: [CallRequest(tool, {argument: match["text"].strip(" '\"`“”")})]


def _wait(match: re.Match[str]) -> list[CallRequest]:
    seconds = float(match["seconds"])
    return [CallRequest("slow_task", {"seconds": int(seconds) if seconds.is_integer() else seconds})]


def _query_metrics(match: re.Match[str]) -> list[CallRequest]:
    # Only the last word: "running exchanges" matches agentic_exchanges_running by a part of its name.
    name = match["name"].strip(" '\"`").lower().split()[-1].removesuffix("s")
    return [CallRequest("query_metrics", {"name": name})]


def _tail_log(match: re.Match[str]) -> list[CallRequest]:
    lines = {"lines": int(match["lines"])} if match["lines"] else {}
    level = {"level": match["level"].lower().removesuffix("s")} if match["level"] else {}
    return [CallRequest("tail_log", lines | level)]


def _ask(match: re.Match[str]) -> list[CallRequest]:
    return [CallRequest(DELEGATION_PREFIX + match["expert"].lower(), {"question": match["question"]})]


_SERVER = r"(?:the|this) (?:server|system)"
_WELL = r"(?:healthy|alive|ready|up|up and running|running|ok|okay|well|fine|all right)"
_DOCUMENTS = r"(?:the )?(?:documents?|documentation|docs)"
_QUERY = r"(?P<query>.{1,400}?)"
_CLAUSES: Sequence[tuple[str, _Requests]] = (
    (
        r"what(?:'s| is)? (?:the )?(?:current |local )?time(?: is it| it is)?(?: now| right now)?"
        r"(?: in (?P<cities>.{1,400}?))?",
        _time,
    ),
    (rf"search (?:in )?{_DOCUMENTS} (?:for|about) {_QUERY}", _search),
    (rf"(?:look up|look for|find|search|search for) {_QUERY} in {_DOCUMENTS}", _search),
    (rf"what do(?:es)? {_DOCUMENTS} say about {_QUERY}", _search),
    (
        rf"is {_SERVER} {_WELL}|(?:whether|if) {_SERVER} is {_WELL}|how (?:is|healthy is) {_SERVER}"
        rf"|(?:check|what is|what's) the health of {_SERVER}|check {_SERVER}(?:'s health)?",
        _without_arguments("server_health"),
    ),
    (
        r"(?:list|show me|show) the metrics|(?:what|which) metrics are there",
        _without_arguments("list_metrics"),
    ),
    (
        r"(?:what do the metrics (?:say|tell) (?:of|about)|(?:show me|show) the metrics (?:of|about|for)) "
        r"(?P<name>[\w' \"`]{1,80}?)",
        _query_metrics,
    ),
    (
        r"(?:(?:show me|show|read) the |the )?(?:(?:last|latest) )?(?:(?P<lines>\d{1,3}) )?"
        r"(?:lines|entries|(?P<level>warnings|errors)) (?:of|in|from) the (?:server's |server )?log",
        _tail_log,
    ),
    (r"(?:add|create|make) a todo: (?P<text>.{1,400}?)", _with_text("create_todo", "title")),
    (r"(?:list|show) my todos", _without_arguments("list_todos")),
    (r"(?:add|create|make|take) a note: (?P<text>.{1,400}?)", _with_text("create_note", "text")),
    (r"(?:list|show) my notes", _without_arguments("list_notes")),
    (
        r"search my (?:earlier |old )?(?:conversations|sessions|chats) for (?P<text>.{1,400}?)",
        _with_text("search_sessions", "query"),
    ),
    (r"ask (?:the )?(?P<expert>\w[\w-]{0,59}): (?P<question>.{1,400}?)", _ask),
    (
        r"(?:wait|use the slow (?:tool|task)) (?:for )?(?P<seconds>\d{1,6}(?:\.\d{1,3})?) ?(?:s|secs?|seconds?)",
        _wait,
    ),
    (
        r"(?:what's|what is|how much is|calculate|compute|work out) (?P<expressions>[-+(\d.].{0,400}?)",
        _calculation,
    ),
)
_PHRASED = (
    *((clause_pattern(body), requests) for body, requests in _CLAUSES),
    (re.compile(r"(?P<expressions>[\d(][-+*/%().\d\s\u00d7\u00f7^]{0,400}=?)"), _calculation),
)
