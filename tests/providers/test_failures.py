"""What comes of a provider that fails as it is told."""

from itertools import product
from pathlib import Path

import pytest
from providers.conftest import MODELS
from support.chat_client import ChatClient, Event, chat, check_exchange, final_text, text_of
from support.further_cases import each_once
from support.providers.model_server import ModelServer
from support.providers.reply import Reply
from support.recorded_agents import eventually
from support.running_server import RunningServer, running_server


@pytest.mark.parametrize(
    ("status", "attempts", "code", "model"),
    each_once(
        [(500, 3, "model_error"), (429, 3, "model_error"), (400, 1, "model_error"), (401, 1, "model_refused_key")],
        MODELS.values(),
    ),
)
async def test_an_error_of_the_provider_is_typed_and_quotes_neither_key_nor_request(
    provider: ModelServer, server: RunningServer, status: int, attempts: int, code: str
) -> None:
    provider.reply = lambda messages: Reply(status=status)
    async with chat(server.address) as client:
        events = await client.ask("hello")
        check_failure(events, code, retryable=attempts > 1)
        assert len(provider.asked) == attempts
        # The text in `detail` is the provider's own.
        told = events[-1]["error"].pop("detail")["text"] + events[-2].pop("detail")["text"]
        assert "Refused" in told and "sk-" not in told
        assert "sk-" not in str(events) and "Refused" not in str(events)
        await goes_on(client, provider, events[0]["session_id"])


@pytest.mark.parametrize(
    ("failure", "model"),
    [
        # The providers' packages try again.
        *each_once([Reply(status=429), Reply(status=503), Reply(cut_after=0)], MODELS.values()),
        *product(
            [
                Reply("never said", cut_before_words=0),
                Reply("never said", cut_before_words=1),
                Reply("never said", error_after=0),
            ],
            MODELS.values(),
        ),
    ],
    ids=[
        f"{failure}-{model}"
        for failure, model in product(
            ["429", "503", "connection", "after its head", "after what says nothing", "told within the response"],
            MODELS,
        )
    ],
)
async def test_what_fails_before_the_first_token_is_tried_again(
    provider: ModelServer, server: RunningServer, failure: Reply
) -> None:
    provider.reply = lambda messages: failure if len(provider.asked) <= 2 else Reply("one two three")
    async with chat(server.address) as client:
        events = await client.ask("hello")
    check_exchange(events)
    assert events[-1]["status"] == "ok"
    assert final_text(events) == "one two three"
    assert len(provider.asked) == 3


@pytest.mark.parametrize(
    ("model", "failure"),
    each_once(MODELS.values(), [Reply(status=503), Reply("x", cut_before_words=0)]),
    ids=[f"{model}-{failure}" for model, failure in product(MODELS, ["503", "after its head"])],
)
async def test_how_often_it_is_tried_again_is_an_option_of_the_model(
    provider: ModelServer, model: str, tmp_path: Path, failure: Reply
) -> None:
    provider.reply = lambda messages: failure
    settings = {"models": {"default": {"model": model, "options": {"max_retries": 0}}}}
    async with running_server(tmp_path, settings=settings) as server, chat(server.address) as client:
        check_failure(await client.ask("hello"), "model_error")
    assert len(provider.asked) == 1


@pytest.mark.parametrize(
    ("model", "failure"),
    each_once(MODELS.values(), [{"cut_after": 2}, {"error_after": 2}]),
    ids=[f"{model}-{failure}" for model, failure in product(MODELS, ["connection", "told"])],
)
async def test_a_stream_that_breaks_off_is_a_model_error_and_its_text_is_kept(
    provider: ModelServer, server: RunningServer, failure: dict[str, int]
) -> None:
    provider.reply = lambda messages: Reply("one two three", pause_s=0.05, **failure)
    async with chat(server.address) as client:
        events = await client.ask("hello")
        check_failure(events, "model_error")
        [partial] = [message for message in events[-1]["messages"][1:] if message["channel"] == "final"]
        assert text_of(partial) == "one two"
        assert partial["metadata"]["finish_reason"] == "other"
        assert len(provider.asked) == 1, "what was said can't be said again"
        await goes_on(client, provider, events[0]["session_id"])


# Long enough that nothing else is silent for so long, though the machine stands still for some seconds.
@pytest.mark.parametrize("server", [4], indirect=True)
@pytest.mark.parametrize(("model", "words"), each_once(MODELS.values(), [0, 2]))
async def test_silence_of_the_provider_is_a_model_timeout(
    provider: ModelServer, server: RunningServer, words: int
) -> None:
    provider.reply = lambda messages: Reply("one two three", hang_after=words)
    async with chat(server.address) as client:
        events = await client.ask("hello")
        check_failure(events, "model_timeout")
        partial = [message for message in events[-1]["messages"][1:] if message["channel"] == "final"]
        assert [text_of(message) for message in partial] == (["one two"] if words else [])
        assert all(message["metadata"]["finish_reason"] == "other" for message in partial)
        await goes_on(client, provider, events[0]["session_id"])


def check_failure(events: list[Event], code: str, *, retryable: bool = True) -> None:
    check_exchange(events)
    assert events[-1]["status"] == "error"
    assert events[-1]["error"]["code"] == code
    assert events[-1]["error"]["retryable"] is retryable


async def goes_on(client: ChatClient, provider: ModelServer, session_id: str) -> None:
    """The session's next exchange is answered."""
    provider.reply = lambda messages: Reply("better now")
    events = await client.ask("again", session_id=session_id)
    check_exchange(events)
    assert final_text(events) == "better now"


async def test_a_stop_ends_the_request(provider: ModelServer, server: RunningServer) -> None:
    provider.reply = lambda messages: Reply("word " * 500, pause_s=0.02)
    async with chat(server.address) as client:
        await client.send({"message": "hello"})
        delta = await client.until("delta")
        await client.send({"type": "stop", "session_id": delta["session_id"]})
        assert (await client.until("final"))["status"] == "stopped"
    await eventually(lambda: provider.cut == 1)
