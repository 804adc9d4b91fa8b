"""Text as code in Markdown, from which it can't get out. Pure."""

import re


def fenced(text: str, language: str = "") -> str:
    """`text` as code, behind fences longer than any in it. `language` may be anything."""
    text = with_line_feeds(text)
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{re.sub(r'[^A-Za-z0-9+#._-]', '', language)[:40]}\n{text}\n{fence}"


def with_line_feeds(text: str) -> str:
    """`text` with each end of a line as one line feed."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
