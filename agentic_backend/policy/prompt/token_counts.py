"""TokenCounts: how many tokens texts and messages have for a model. One per process; any thread may count.

A model that has a tokenizer of its own counts with it: one whose class, or whose option `custom_get_token_ids`, turns
a text into tokens. For OpenAI's models that is tiktoken, if TIKTOKEN_CACHE_DIR holds the file of their encoding: it is
never fetched. All other counts are approximate, after LangChain's `count_tokens_approximately`. No count uses the
network, as a provider's own counter does.
"""

import hashlib
import json
import math
import os
import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from cachetools import LRUCache
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.base import BaseLanguageModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.utils import count_tokens_approximately

MOST_COUNTED = 16_384
"""The number of counts that are remembered."""

_CHARACTERS_PER_TOKEN = 4.0
# Of an attached image: providers count from 700 to 1,600 for a large one.
_TOKENS_PER_IMAGE = 1_000
# What a provider adds around each message, as in LangChain's counter.
_BESIDE_MESSAGE = 3
# Longer texts are not worth a tokenizer's time: whether they fit is not a matter of single tokens.
_LONGEST = 200_000

_ENCODINGS = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
# Encodings that use another one's file.
_SAME_FILE = {"o200k_harmony": "o200k_base"}

Tokenizer = Callable[[str], list[int]]


class TokenCounter:
    """Counts as one model does."""

    def __init__(
        self, tokenizer: Tokenizer | None, name: str, counted: LRUCache[Hashable, int], lock: threading.Lock
    ) -> None:
        self._tokenizer = tokenizer
        """Turns a text into tokens; None counts approximately."""
        self._name = name
        """Tells counts of different tokenizers apart."""
        self._counted = counted
        self._lock = lock

    @property
    def is_slow(self) -> bool:
        """Whether texts are read to the end, which takes a thread."""
        return self._tokenizer is not None

    def knows(self, text: str) -> bool:
        """Whether the tokens of `text` have been counted before."""
        with self._lock:
            return self._key_of(text) in self._counted

    def of_text(self, text: str) -> int:
        """The tokens of a text, such as a section of a prompt."""
        return self._remembered(self._key_of(text), lambda: self._tokens(text))

    def of_message(self, message: Any) -> int:
        """The tokens of a message with its calls; 0 for what is no message."""
        if not isinstance(message, BaseMessage):
            return 0
        if not isinstance(message.content, str) or message.id is None:
            return self._of_message(message)
        calls = len(message.tool_calls) if isinstance(message, AIMessage) else 0
        # With the content's hash, because a graph may change a message and keep its id.
        return self._remembered(
            (self._name, message.id, hash(message.content), calls), lambda: self._of_message(message)
        )

    def of_call(self, messages: Iterable[Any], tools: Sequence[Any]) -> int:
        """The tokens of what a model is asked with: messages, and the definitions of its tools."""
        tokens = sum(map(self.of_message, messages))
        if tools:
            try:
                defined = json.dumps(tools, default=str, skipkeys=True)
            except (ValueError, RecursionError):
                defined = str(tools)
            tokens += self.of_text(defined)
        return tokens

    def _key_of(self, text: str) -> Hashable:
        # Without the text itself, which may be long and different each time.
        return self._name, hash(text), len(text)

    def _of_message(self, message: BaseMessage) -> int:
        content = message.content
        if self._tokenizer is None or not isinstance(content, str):
            return _approximate(message)
        texts = [content]
        if isinstance(message, AIMessage):
            texts += [f"{call['name']} {json.dumps(call['args'], default=str)}" for call in message.tool_calls]
        return _BESIDE_MESSAGE + sum(map(self._tokens, texts))

    def _tokens(self, text: str) -> int:
        if self._tokenizer is not None and len(text) <= _LONGEST:
            try:
                return len(self._tokenizer(text))
            except Exception:
                # Tokenizers refuse some texts, such as tiktoken those with its special tokens.
                pass
        return math.ceil(len(text) / _characters_per_token(text))

    def _remembered(self, key: Hashable, count: Callable[[], int]) -> int:
        with self._lock:
            found = self._counted.get(key)
        if found is None:
            found = count()
            with self._lock:
                self._counted[key] = found
        return found


class TokenCounts:
    def __init__(self) -> None:
        self._counted: LRUCache[Hashable, int] = LRUCache(MOST_COUNTED)
        """The counts, by tokenizer and text or message."""
        self._lock = threading.Lock()
        """Held while the counts are read or changed: the cache is not made for threads."""

    def of(self, model: BaseChatModel | None) -> TokenCounter:
        """The counter for `model`; an approximate one for None, and for a model without a tokenizer of its own."""
        name, tokenizer = _tokenizer_of(model)
        return TokenCounter(tokenizer, name, self._counted, self._lock)


def tokens_of_bytes(size: int) -> int:
    """The approximate tokens of a text of `size` bytes in UTF-8."""
    return math.ceil(size / _CHARACTERS_PER_TOKEN)


def context_tokens(model: BaseChatModel | None) -> int | None:
    """The context window of `model`, from its LangChain profile or from the settings; None if neither tells it."""
    most = (model.profile or {}).get("max_input_tokens") if model is not None else None
    return most if isinstance(most, int) and most > 0 else None


def _tokenizer_of(model: BaseChatModel | None) -> tuple[str, Tokenizer | None]:
    if model is None:
        return "", None
    if model.custom_get_token_ids is not None:
        return f"custom {id(model.custom_get_token_ids)}", model.custom_get_token_ids
    if type(model).get_token_ids is BaseLanguageModel.get_token_ids:
        return "", None
    if not any(base.__module__.startswith("langchain_openai.") for base in type(model).__mro__):
        return f"{type(model).__module__}.{type(model).__qualname__}", model.get_token_ids
    model_name = str(getattr(model, "tiktoken_model_name", None) or getattr(model, "model_name", ""))
    encoding = _encoding_of(model_name, os.environ.get("TIKTOKEN_CACHE_DIR", ""))
    return ("", None) if encoding is None else (encoding, model.get_token_ids)


@lru_cache(maxsize=64)
def _encoding_of(model_name: str, directory: str) -> str | None:
    """The name of the encoding that LangChain uses for OpenAI's model; None if its file is not in the directory."""
    if not directory:
        return None
    # Imported late: only who has the files needs it.
    import tiktoken

    try:
        name = tiktoken.encoding_name_for_model(model_name)
    except KeyError:
        is_new = model_name.lower().startswith(("gpt-4o", "gpt-4.1", "gpt-5", "gpt-6"))
        name = "o200k_base" if is_new else "cl100k_base"
    url = _ENCODINGS.format(_SAME_FILE.get(name, name))
    return name if (Path(directory) / hashlib.sha1(url.encode()).hexdigest()).is_file() else None


def _approximate(message: BaseMessage) -> int:
    try:
        characters = _characters_per_token(message.text)
        return count_tokens_approximately([message], chars_per_token=characters, tokens_per_image=_TOKENS_PER_IMAGE)
    except Exception:
        # LangChain refuses messages of an author's own class.
        return _BESIDE_MESSAGE + math.ceil(len(message.text) / _CHARACTERS_PER_TOKEN)


def _characters_per_token(text: str) -> float:
    """Four, and fewer in scripts whose characters take several bytes: providers' tokenizers work on bytes."""
    if text.isascii():
        return _CHARACTERS_PER_TOKEN
    return _CHARACTERS_PER_TOKEN * len(text) / len(text.encode(errors="surrogatepass"))
