"""Which tool calls a text asks the offline model for.

Pure functions over one text; they know no conversation and no tools. A phrase counts only where it begins a clause, so
that a word in the middle of a sentence asks for nothing. A call that names its tool may stand anywhere.
"""

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from agentic_backend.agents.delegation_tool_name import ASK

WINDOW = 4_000
"""Phrases are looked for in so many characters from the beginning of a text."""

MAX_CALLS = 20
"""More calls than these are not made for one text."""

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
    """A pattern that fully matches a clause which says `body`, courtesies aside."""
    return re.compile(f"{_COURTESY_BEFORE}(?:{body}){_COURTESY_AFTER}", re.IGNORECASE)


def clauses(text: str) -> list[tuple[int, str]]:
    """The clauses of `text`, each with its place in it: words parted by single spaces, no punctuation at the end."""
    found, start = [], 0
    head = text[:WINDOW].replace("\u2019", "'")
    for end, resume in [*(match.span() for match in _CLAUSE_BREAK.finditer(head)), (len(head), 0)]:
        if clause := " ".join(head[start:end].split()).rstrip(".?!;, "):
            found.append((start, clause))
        start = resume
    return found


@dataclass(frozen=True, slots=True)
class CallRequest:
    """A call that a text asks for in the words `said`; `args` is None where they could not be read."""

    name: str
    args: dict[str, Any] | None
    said: str = field(default="", compare=False)


def requested_calls(text: str) -> list[CallRequest]:
    """The calls that `text` asks for, in the order of the text, whether or not there are such tools."""
    named = list(islice(_named_calls(text), MAX_CALLS))
    for start, end, _ in named:
        # Newlines, so that the rest keeps its places and is still parted where the call stood.
        text = text[:start] + "\n" * (end - start) + text[end:]
    placed = [(start, request) for start, _, request in named]
    for start, clause in clauses(text):
        placed += [(start, replace(request, said=clause)) for request in _phrased_calls(clause)]
    return [request for _, request in sorted(placed, key=lambda entry: entry[0])][:MAX_CALLS]


_TOOL_WITH_JSON = re.compile(
    r"\b(?:use|call|run)\s+the\s+"
    r"(?:tool\s+[`'\"]?(?P<name>\w[\w-]*(?:\.[\w-]+)*)[`'\"]?(?:\s+with\s+(?=\{))?"
    r"|[`'\"]?(?P<tool>\w[\w-]*)[`'\"]?\s+tool\s+with\s+(?=\{))",
    re.IGNORECASE,
)
_CALL_WITH_KEYWORDS = re.compile(r"\bcall\s+`?(?P<name>[a-z_][\w-]*)(?P<tool>)(?=\()", re.IGNORECASE)
_JSON_NAMES = {"true": True, "false": False, "null": None}


def _named_calls(text: str) -> Iterator[tuple[int, int, CallRequest]]:
    """The calls that name their tool, one after the other: start, end, request."""
    matches = [*_TOOL_WITH_JSON.finditer(text), *_CALL_WITH_KEYWORDS.finditer(text[:WINDOW])]
    read_up_to = 0
    for match in sorted(matches, key=re.Match.start):
        if match.start() < read_up_to:
            continue
        args, read_up_to = _read_arguments(text, match)
        said = text[match.start() : read_up_to]
        yield match.start(), read_up_to, CallRequest(match["name"] or match["tool"], args, said)


def _read_arguments(text: str, match: re.Match[str]) -> tuple[dict[str, Any] | None, int]:
    """The arguments that follow `match`, None where they can't be read, and where they end."""
    following = text[match.end() : match.end() + 1]
    if following == "{":
        return _read_json(text, match.end())
    if following == "(":
        return _read_keywords(text[:WINDOW], match.end())
    return {}, match.end()


def _read_json(text: str, start: int) -> tuple[dict[str, Any] | None, int]:
    try:
        args, end = json.JSONDecoder().raw_decode(text, start)
        return _plain(args), end
    except (ValueError, RecursionError):
        return None, len(text)


def _read_keywords(text: str, start: int) -> tuple[dict[str, Any] | None, int]:
    """The arguments of `(a=1, b="x")` at `start`; it ends at the first parenthesis that makes it whole."""
    for closing in list(re.finditer(r"\)", text[start:]))[:MAX_CALLS]:
        end = start + closing.end()
        try:
            call = ast.parse(f"f{text[start:end]}", mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        try:
            return _keywords(call), end
        except (ValueError, RecursionError):
            return None, end
    return None, len(text)


def _keywords(call: ast.expr) -> dict[str, Any]:
    if not isinstance(call, ast.Call) or call.args:
        raise ValueError("arguments need their names")
    return _plain({keyword.arg or "": _literal(keyword.value) for keyword in call.keywords})


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Name) and node.id in _JSON_NAMES:
        return _JSON_NAMES[node.id]
    try:
        return ast.literal_eval(node)
    except TypeError as error:
        raise ValueError("no literal") from error


def _plain(args: Any) -> dict[str, Any]:
    """`args` as JSON gives it back; ValueError for what JSON does not know, such as NaN or a set."""
    try:
        plain = json.loads(json.dumps(args, allow_nan=False))
    except TypeError as error:
        raise ValueError("no JSON") from error
    if not isinstance(plain, dict):
        raise ValueError("no object")
    return plain


def _phrased_calls(clause: str) -> Iterable[CallRequest]:
    for pattern, requests in _PHRASED:
        if match := pattern.fullmatch(clause):
            return requests(match)
    return ()


def _time(match: re.Match[str]) -> list[CallRequest]:
    named = match["cities"]
    if named is None:
        return [CallRequest("current_time", {"city": "UTC"})]
    # A comma alone may belong to one place: "Paris, France".
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


def _wait(match: re.Match[str]) -> list[CallRequest]:
    seconds = float(match["seconds"])
    return [CallRequest("slow_task", {"seconds": int(seconds) if seconds.is_integer() else seconds})]


def _health(match: re.Match[str]) -> list[CallRequest]:
    return [CallRequest("server_health", {})]


def _list_metrics(match: re.Match[str]) -> list[CallRequest]:
    return [CallRequest("list_metrics", {})]


def _query_metrics(match: re.Match[str]) -> list[CallRequest]:
    # A part of a metric's name: "running exchanges" is agentic_exchanges_running's, so the last word has to do.
    name = match["name"].strip(" '\"`").lower().split()[-1].removesuffix("s")
    return [CallRequest("query_metrics", {"name": name})]


def _tail_log(match: re.Match[str]) -> list[CallRequest]:
    lines = {"lines": int(match["lines"])} if match["lines"] else {}
    level = {"level": match["level"].lower().removesuffix("s")} if match["level"] else {}
    return [CallRequest("tail_log", lines | level)]


def _ask(match: re.Match[str]) -> list[CallRequest]:
    return [CallRequest(ASK + match["expert"].lower(), {"question": match["question"]})]


_SERVER = r"(?:the|this) (?:server|system)"
_WELL = r"(?:healthy|alive|ready|up|up and running|running|ok|okay|well|fine|all right)"
_DOCUMENTS = r"(?:the )?(?:documents?|documentation|docs)"
_SECONDS = r"(?:for )?(?P<seconds>\d{1,6}(?:\.\d{1,3})?) ?(?:s|secs?|seconds?)"
_PHRASED: Sequence[tuple[re.Pattern[str], Callable[[re.Match[str]], Iterable[CallRequest]]]] = (
    (
        clause_pattern(
            r"what(?:'s| is)? (?:the )?(?:current |local )?time(?: is it| it is)?(?: now| right now)?"
            r"(?: in (?P<cities>.{1,400}?))?"
        ),
        _time,
    ),
    (clause_pattern(rf"search (?:in )?{_DOCUMENTS} (?:for|about) (?P<query>.{{1,400}}?)"), _search),
    (clause_pattern(rf"(?:look up|look for|find|search|search for) (?P<query>.{{1,400}}?) in {_DOCUMENTS}"), _search),
    (clause_pattern(rf"what do(?:es)? {_DOCUMENTS} say about (?P<query>.{{1,400}}?)"), _search),
    (
        clause_pattern(
            rf"is {_SERVER} {_WELL}|(?:whether|if) {_SERVER} is {_WELL}|how (?:is|healthy is) {_SERVER}"
            rf"|(?:check|what is|what's) the health of {_SERVER}|check {_SERVER}(?:'s health)?"
        ),
        _health,
    ),
    (clause_pattern(r"(?:list|show me|show) the metrics|(?:what|which) metrics are there"), _list_metrics),
    (
        clause_pattern(
            r"(?:what do the metrics (?:say|tell) (?:of|about)|(?:show me|show) the metrics (?:of|about|for)) "
            r"(?P<name>[\w' \"`]{1,80}?)"
        ),
        _query_metrics,
    ),
    (
        clause_pattern(
            r"(?:(?:show me|show|read) the |the )?(?:(?:last|latest) )?(?:(?P<lines>\d{1,3}) )?"
            r"(?:lines|entries|(?P<level>warnings|errors)) (?:of|in|from) the (?:server's |server )?log"
        ),
        _tail_log,
    ),
    (clause_pattern(r"ask (?:the )?(?P<expert>\w[\w-]{0,59}): (?P<question>.{1,400}?)"), _ask),
    (clause_pattern(rf"(?:wait|use the slow (?:tool|task)) {_SECONDS}"), _wait),
    (
        clause_pattern(r"(?:what's|what is|how much is|calculate|compute|work out) (?P<expressions>[-+(\d.].{0,400}?)"),
        _calculation,
    ),
    (re.compile(r"(?P<expressions>[\d(][-+*/%().\d\s\u00d7\u00f7^]{0,400}=?)"), _calculation),
)
