"""What the offline model finds in the passages of documents that its prompt has.

These are the sentences that share most words with the question, each with its passage's number. Pure.
"""

import re
from collections.abc import Sequence

from langchain_core.messages import BaseMessage, SystemMessage

_PASSAGE = re.compile(r'<passage number="(\d{1,3})"[^>\n]*>\n(.*?)\n</passage>', re.DOTALL)
_SENTENCE = re.compile(r"[^.!?\n|#]+(?:\.(?!\s|$)[^.!?\n|#]*)*[.!?]?")
_WORD = re.compile(r"\w{3,}")
_MOST_QUOTES, _LONGEST_QUOTE, _READ = 3, 300, 200_000


def quoted(messages: Sequence[BaseMessage], question: str) -> str | None:
    """An answer of sentences from the passages; None if the prompt has none, or none has a word of the question."""
    prompts = [message.text for message in messages if isinstance(message, SystemMessage)]
    asked = {word.lower() for word in _WORD.findall(question)}
    found: list[tuple[int, int, str]] = []
    for number, text in _PASSAGE.findall("\n".join(prompts)[:_READ]):
        sentences = [sentence.strip() for sentence in _SENTENCE.findall(text) if sentence.strip()]
        shared = [len(asked & {word.lower() for word in _WORD.findall(sentence)}) for sentence in sentences]
        if shared and (most := max(shared)):
            found.append((-most, int(number), sentences[shared.index(most)]))
    lines = [f"{sentence[:_LONGEST_QUOTE].strip()} [{number}]" for _, number, sentence in sorted(found)[:_MOST_QUOTES]]
    return "\n".join(["The documents say:", "", *(f"- {line}" for line in lines)]) if lines else None
