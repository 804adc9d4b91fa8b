"""What the metrics tell of calls of real providers: who was asked for what, how it failed, what was tried again."""

from itertools import count

import pytest
from prometheus_client.parser import text_string_to_metric_families
from providers.conftest import MODELS
from support.chat_client import chat
from support.further_cases import each_once
from support.providers.model_server import ModelServer
from support.providers.reply import Reply
from support.rest_client import plain_http
from support.running_server import RunningServer

CALLS = "gen_ai_client_operation_duration_seconds_count"


async def samples(server: RunningServer, name: str) -> dict[tuple[str, ...], float]:
    async with plain_http() as client:
        exposition = (await client.get(f"{server.internal}/metrics")).text
    families = text_string_to_metric_families(exposition)
    found = [one for family in families for one in family.samples if one.name == name]
    return {tuple(value for _, value in sorted(one.labels.items())): one.value for one in found}


async def test_a_call_has_its_provider_its_model_and_its_tokens(
    server: RunningServer, provider: ModelServer, model: str
) -> None:
    provider.reply = lambda messages: Reply("wombatfruit for you")
    async with chat(server.address) as client:
        # A query gets no title, which would be another call.
        await client.ask("hello", mode="query")
    named = ("chat", *model.split(":"))
    assert await samples(server, CALLS) == {("", *named): 1}
    assert await samples(server, "gen_ai_client_operation_time_to_first_chunk_seconds_count") == {named: 1}
    assert (await samples(server, "gen_ai_client_token_usage_sum")).keys() == {(*named, "input"), (*named, "output")}


@pytest.mark.parametrize(
    ("status", "error_type", "model"),
    each_once(
        [(401, "model_refused_key"), (400, "request_refused"), (404, "model_not_found"), (500, "server_error")],
        MODELS.values(),
    ),
)
async def test_a_failed_call_has_one_of_the_known_types(
    server: RunningServer, provider: ModelServer, model: str, status: int, error_type: str
) -> None:
    provider.reply = lambda messages: Reply(status=status)
    async with chat(server.address) as client:
        await client.ask("hello", mode="query")
    assert await samples(server, CALLS) == {(error_type, "chat", *model.split(":")): 1}


async def test_what_breaks_off_before_its_first_word_is_counted_as_tried_again(
    server: RunningServer, provider: ModelServer
) -> None:
    tries = count()
    provider.reply = lambda messages: Reply("here", cut_before_words=1) if next(tries) == 0 else Reply("here")
    async with chat(server.address) as client:
        events = await client.ask("hello", mode="query")
    assert events[-1]["status"] == "ok"
    assert await samples(server, "chat_retries_total") == {("model",): 1}


@pytest.mark.parametrize("model", ["openai:gpt-5.4-mini"], ids=["completions"])
async def test_what_openai_s_package_tries_again_is_counted(server: RunningServer, provider: ModelServer) -> None:
    tries = count()
    provider.reply = lambda messages: Reply(status=500) if next(tries) < 2 else Reply("here")
    async with chat(server.address) as client:
        events = await client.ask("hello", mode="query")
    assert events[-1]["status"] == "ok"
    assert await samples(server, "chat_retries_total") == {("model",): 2}
