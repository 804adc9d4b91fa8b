"""LinearPattern: a regular expression whose search takes time that is linear in the text's length, whatever the text.

It is of RE2, which has no look-around and no back-references, and ignores case.
"""

from collections.abc import Iterator

import re2  # type: ignore[import-untyped]

# Finding every match can take the time of a search for each.
_MOST_MATCHES = 1_000


class LinearPattern:
    def __init__(self, pattern: str) -> None:
        """Raises ValueError if RE2 can't compile `pattern`, or if it matches an empty text."""
        options = re2.Options()
        options.case_sensitive = False
        options.log_errors = False
        try:
            self._compiled = re2.compile(pattern, options)
        except re2.error as error:
            raise ValueError(f"is no regular expression of RE2: {_message(error)}") from None
        if self._compiled.search("") is not None:
            raise ValueError("matches an empty text, and so every text")

    def matches(self, text: str) -> bool:
        return self._compiled.search(text) is not None

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """The places of the matches. Beyond 1,000 of them, the rest of `text` is one match."""
        for number, match in enumerate(self._compiled.finditer(text)):
            if number == _MOST_MATCHES:
                yield match.start(), len(text)
                return
            if match.end() > match.start():
                yield match.start(), match.end()


def _message(error: Exception) -> str:
    (message,) = error.args
    return message.decode(errors="replace") if isinstance(message, bytes) else str(message)
