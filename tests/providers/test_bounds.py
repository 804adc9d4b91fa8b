"""A response of OpenAI is read within bounds, whether a node waits for it in a thread or in the event loop."""

import asyncio
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from support.further_cases import each_once
from support.providers.hostile import hostile_provider
from support.providers.model_server import ModelServer
from support.providers.reply import Reply

from agentic_backend.agents.models.chat_models import build_model
from agentic_backend.config.settings import ModelSettings

LONGEST = 16 * 1024 * 1024
# More than is read from a connection at a time.
SOME = 1024 * 1024
TOLD = "The provider sent more at once than is read."


def openai_model(**options: Any) -> BaseChatModel:
    return build_model(ModelSettings(model="openai:gpt-5.4-mini", options={"max_retries": 0, **options}), "")


async def answer(model: BaseChatModel, way: str, message: str = "hello") -> int:
    """The length of the answer to `message`."""
    match way:
        case "invoke":
            return len((await asyncio.to_thread(model.invoke, message)).text)
        case "ainvoke":
            return len((await model.ainvoke(message)).text)
        case "stream":
            return sum(len(chunk.text) for chunk in await asyncio.to_thread(list, model.stream(message)))
    return sum([len(chunk.text) async for chunk in model.astream(message)])


WAYS = ["invoke", "ainvoke", "stream", "astream"]


@pytest.mark.parametrize(("way", "use_responses_api"), each_once(WAYS, [False, True]))
async def test_no_more_is_read_at_once_than_16_mib(provider: ModelServer, way: str, use_responses_api: bool) -> None:
    model = openai_model(use_responses_api=use_responses_api)
    provider.reply = lambda messages: Reply("w" * (LONGEST - SOME))
    assert await answer(model, way) == LONGEST - SOME
    provider.reply = lambda messages: Reply("w" * (LONGEST + SOME))
    with pytest.raises(Exception) as refusal:
        await answer(model, way)
    assert TOLD in _told(refusal.value)


@pytest.mark.parametrize("way", WAYS)
async def test_no_more_objects_are_made_at_once_than_10_000(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests-0123456789abcdef")
    async with hostile_provider() as url:
        with pytest.raises(Exception) as refusal:
            await answer(openai_model(base_url=url), way, "answer calls_at_once")
    assert TOLD in _told(refusal.value)


def _told(error: BaseException | None) -> list[str]:
    """What `error` and its causes say."""
    return [] if error is None else [str(error), *_told(error.__cause__ or error.__context__)]
