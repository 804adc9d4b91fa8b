"""Which limit a model's answers get: its own, the wanted one, or room for thoughts above it."""

from typing import Any

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_openai import ChatOpenAI

from agentic_backend.agents.models.chat_models import build_model
from agentic_backend.agents.models.output_limit import with_output_limit
from agentic_backend.config.settings import ModelSettings
from agentic_backend.offline.model import OfflineChatModel


def gpt(**options: Any) -> BaseChatModel:
    return ChatOpenAI(**{"model": "gpt-4.1", "api_key": "-", **options})


def claude(**options: Any) -> BaseChatModel:
    return ChatAnthropic(**{"model": "claude-sonnet-5-5", "api_key": "-", **options})


@pytest.mark.parametrize(
    ("model", "limit"),
    [
        pytest.param(gpt(), 300, id="thinks not"),
        pytest.param(gpt(max_tokens=200), 200, id="its own is lower"),
        pytest.param(gpt(max_tokens=-1), 300, id="its own is none"),
        pytest.param(gpt(model="gpt-5.4-mini"), 300 + 16_384, id="thinks"),
        pytest.param(gpt(model="local"), 300 + 4_096, id="unknown"),
        pytest.param(gpt(model="local", profile={"max_input_tokens": 8_000}), 300 + 2_000, id="a small window"),
        pytest.param(claude(), 300 + 16_384, id="its package's own is higher"),
        pytest.param(claude(thinking={"type": "enabled", "budget_tokens": 20_000}), 300 + 20_000, id="a budget"),
    ],
)
def test_a_model_writes_no_more_than_is_wanted_and_what_it_may_think(model: BaseChatModel, limit: int) -> None:
    before = model.max_tokens  # type: ignore[attr-defined]
    limited = with_output_limit(model, 300)
    assert limited.max_tokens == limit and type(limited) is type(model)  # type: ignore[attr-defined]
    assert model.max_tokens == before  # type: ignore[attr-defined]


def test_another_name_of_the_limit_is_known() -> None:
    model = ChatGoogleGenerativeAI(model="gemini-2.5-flash", api_key="-", thinking_budget=30_000)
    limited = with_output_limit(model, 300)
    assert isinstance(limited, ChatGoogleGenerativeAI) and limited.max_output_tokens == 300 + 30_000


def test_a_model_without_a_limit_stays_as_it_is() -> None:
    model = build_model(ModelSettings(model="offline"), "")
    assert isinstance(model, OfflineChatModel) and with_output_limit(model, 300) is model
