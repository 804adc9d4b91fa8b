"""Tokens of texts and messages, counted with a model's own tokenizer or approximately, and never over the network."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from support.phrase_model import PhraseModel

from agentic_backend.offline.model import OfflineChatModel
from agentic_backend.policy.prompt.token_counts import MOST_COUNTED, TokenCounts, context_tokens


class Counting(OfflineChatModel):
    """A word is a token; remembers what it was asked."""

    def get_token_ids(self, text: str) -> list[int]:
        if "<|endoftext|>" in text:
            raise ValueError("a special token")
        _asked.append(text)
        return list(range(len(text.split())))


_asked: list[str] = []


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def connect(*args: Any) -> None:
        raise AssertionError("a count uses the network")

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    _asked.clear()
    yield


def test_a_models_own_tokenizer_counts() -> None:
    counter = TokenCounts().of(Counting())
    assert counter.is_slow
    assert counter.of_text("one two three") == 3
    assert counter.of_message(HumanMessage("one two", id="a:1")) == 5
    call = {"name": "look", "args": {"at": "me"}, "id": "c"}
    assert counter.of_message(AIMessage("so", tool_calls=[call], id="a:2")) == 3 + 1 + 3


def test_an_option_of_the_model_can_be_the_tokenizer() -> None:
    model = PhraseModel(custom_get_token_ids=lambda text: [0] * len(text))
    assert TokenCounts().of(model).of_text("abc") == 3


def test_a_message_is_counted_once_until_it_changes() -> None:
    counts = TokenCounts()
    for _ in range(3):
        counts.of(Counting()).of_message(HumanMessage("one two", id="a:1"))
    assert _asked == ["one two"]
    assert counts.of(Counting()).of_message(HumanMessage("one two three", id="a:1")) == 6


def test_a_text_that_the_tokenizer_refuses_is_counted_approximately() -> None:
    assert TokenCounts().of(Counting()).of_text("<|endoftext|>") == 4


@pytest.mark.parametrize(
    "model",
    [
        None,
        PhraseModel(),
        ChatOpenAI(model="gpt-4o", api_key="key"),  # type: ignore[arg-type]
        ChatAnthropic(model_name="claude-sonnet-4-5", api_key="key"),  # type: ignore[call-arg, arg-type]
    ],
)
def test_without_a_tokenizer_at_hand_counts_are_approximate(model: BaseChatModel | None) -> None:
    counter = TokenCounts().of(model)
    assert not counter.is_slow
    assert counter.of_text("word" * 100) == 100
    assert counter.of_text("字" * 100) == 75, "three bytes each"
    assert counter.of_message(HumanMessage("word" * 100, id="a:1")) == pytest.approx(105, abs=3)
    image = HumanMessage([{"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 99_999}}])
    assert counter.of_message(image) == pytest.approx(1_000, abs=10), "as of a large image, however many bytes it has"
    assert counter.of_message(ToolMessage("found", tool_call_id="c", id="a:2")) < 20
    assert counter.of_message(object()) == 0


@pytest.mark.parametrize("model", [None, Counting()])
def test_a_message_of_an_authors_own_class_is_counted(model: BaseChatModel | None) -> None:
    class Note(BaseMessage):
        type: str = "note"

    assert 4 <= TokenCounts().of(model).of_message(Note(content="a note", id="n")) <= 6


def test_openais_files_are_not_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    assert not TokenCounts().of(ChatOpenAI(model="gpt-4o", api_key="key")).is_slow  # type: ignore[arg-type]


def test_counts_are_bounded_in_number() -> None:
    counts = TokenCounts()
    for number in range(MOST_COUNTED + 10):
        counts.of(None).of_text(f"{number}")
    assert len(counts._counted) == MOST_COUNTED


def test_the_window_comes_from_the_models_profile() -> None:
    assert context_tokens(None) is None
    assert context_tokens(OfflineChatModel()) is None
    assert context_tokens(OfflineChatModel(profile={"max_input_tokens": 8_192})) == 8_192
    assert context_tokens(ChatOpenAI(model="gpt-4o", api_key="key")) == 128_000  # type: ignore[arg-type]
