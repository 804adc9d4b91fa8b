"""Texts that the offline model says: results of tools, titles, summaries, sample texts. Pure functions."""

import json
import re
from collections.abc import Iterable, Sequence
from itertools import cycle, islice

from langchain_core.messages import ToolMessage

from agentic_backend.agents.delegation_tool_name import ASK

SUMMARY_HEADING = "Summary of the conversation so far:"

MARKDOWN = """\
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

_SPEAK_IN_SENTENCES = frozenset({"current_time", "calculate", "slow_task", "server_health"})
"""Tools whose results are sentences already."""

_SPEAK_IN_LINES = frozenset({"list_metrics", "query_metrics", "tail_log"})
"""Tools whose results are lines, which Markdown would join."""

_RESULT_EXCERPT = 600
_LINES_EXCERPT = 2_000
_EXPERT_EXCERPT = 4_000
_PASSAGE_EXCERPT = 240
_SUMMARY_LINES, _SUMMARY_LINE = 30, 200
_TITLE_WORDS, _TITLE_LENGTH = 6, 60

_INSIGNIFICANT = frozenset(
    "a an and are at be by can could did do does for from give have hello hey hi how i in is it let like me my of on "
    "or please show tell that the then there this to us was we what what's when where which who why will with would "
    "write you your".split()
)

_LOREM = (
    "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore et dolore magna "
    "aliqua enim ad minim veniam quis nostrud exercitation ullamco laboris nisi aliquip ex ea commodo consequat duis "
    "aute irure in reprehenderit voluptate velit esse cillum fugiat nulla pariatur excepteur sint occaecat cupidatat "
    "non proident sunt culpa qui officia deserunt mollit anim id est laborum"
).split()
_SENTENCE_LENGTHS = (8, 12, 6, 10, 14)
_PARAGRAPH = sum(_SENTENCE_LENGTHS)


def describe_results(results: Sequence[tuple[str, ToolMessage]]) -> str:
    """What came of the calls, as Markdown. `results`: the name of each tool, with its result."""
    sentences, paragraphs = [], []
    for name, result in results:
        if result.status != "error" and name in _SPEAK_IN_SENTENCES:
            sentences.append(result.text.strip().rstrip("."))
        else:
            paragraphs.append(_describe(name, result))
    if sentences:
        paragraphs.insert(0, "; ".join(sentences) + ".")
    return "\n\n".join(paragraphs)


def _describe(name: str, result: ToolMessage) -> str:
    text = excerpt(result.text.strip(), _RESULT_EXCERPT)
    if result.status == "error":
        return f"The tool `{name}` failed: {text or 'it gave no reason.'}"
    if name.startswith(ASK):
        return f"**{name.removeprefix(ASK)}** says:\n\n{excerpt(result.text.strip(), _EXPERT_EXCERPT)}"
    if name in _SPEAK_IN_LINES:
        lines = excerpt(result.text.strip(), _LINES_EXCERPT)
        return f"The tool `{name}` answered:\n\n```\n{lines}\n```"
    if name == "search_documents" and (passages := _passages(result.text)):
        return "This is what the documents say:\n\n" + "\n".join(passages)
    return f"The tool `{name}` answered:\n\n{text}" if text else f"The tool `{name}` answered with nothing."


def _passages(content: str) -> list[str]:
    """A list item for each passage that a search found; none where `content` is not the result of a search."""
    try:
        return [f"- **{hit['title']}** ({hit['heading']}): {_in_one_line(hit['text'])}" for hit in json.loads(content)]
    except (ValueError, TypeError, KeyError, RecursionError):
        return []


def _in_one_line(markdown: str) -> str:
    without_code = re.sub(r"```.*?(?:```|\Z)", "…", markdown, flags=re.S)
    return excerpt(" ".join(without_code.split()), _PASSAGE_EXCERPT)


def excerpt(text: str, limit: int) -> str:
    """`text`, cut between words where it is longer than `limit` characters."""
    if len(text) <= limit:
        return text
    return text[:limit].rsplit(maxsplit=1)[0] + " …"


def title_of(text: str) -> str:
    """The first few words of `text` that mean something, capitalised."""
    words = [word.strip(".,;:!?\"'()[]`*#") for word in text[: 20 * _TITLE_LENGTH].split()]
    words = [word for word in words if word]
    significant = [word for word in words if word.lower() not in _INSIGNIFICANT] or words
    title = " ".join(word[0].upper() + word[1:] for word in significant[:_TITLE_WORDS])
    return excerpt(title, _TITLE_LENGTH) or "New conversation"


def summary_of(texts: Iterable[str]) -> str:
    """What the person said, line by line, the latest lines where there are too many.

    A text may be a transcript: then only the lines of the user count, and those of an earlier summary.
    """
    lines = [line.strip() for text in texts for line in text.splitlines() if line.strip()]
    said = [match[1] for line in lines if (match := re.match(r"(?:(?:user|human)\s*:|-)\s*(.+)", line, re.I))]
    kept = list(dict.fromkeys(said or lines))[-_SUMMARY_LINES:]
    return "\n".join([SUMMARY_HEADING, *(f"- {excerpt(line, _SUMMARY_LINE)}" for line in kept)])


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
