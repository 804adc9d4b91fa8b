"""Embeddings of OpenAI's client, against a server that speaks as OpenAI's does: counted, priced, failing as typed."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.embedding_application import OWN, PATH
from support.further_cases import further_but
from support.providers.model_server import ModelServer
from support.providers.reply import Reply
from support.rest_client import error_of, metric_at, plain_http, rest
from support.running_server import FAST, RunningServer, running_server

from agentic_backend.agents.models.chat_models import load_embeddings
from agentic_backend.agents.models.embedding_models import EmbeddingModel
from agentic_backend.agents.models.model_check import check_embedding
from agentic_backend.config.checks import CheckFailed
from agentic_backend.config.topics.embeddings import EmbeddingSettings
from agentic_backend.testing import ScriptedEmbeddings

MODEL = "text-embedding-of-the-tests"
PRICE = {"model": "text-*", "input_per_million": 1_000_000, "output_per_million": 0, "from": "2026-01-01"}


@asynccontextmanager
async def embedding(directory: Path, **settings: Any) -> AsyncIterator[tuple[RunningServer, httpx.AsyncClient]]:
    named = {"model": f"openai:{MODEL}", "batch_texts": 4, "timeout_s": 5, **settings.pop("model", {})}
    whole = {
        **FAST,
        "applications": [{"class_path": PATH}],
        "embeddings": {"default": named},
        "prices": [PRICE],
        **settings,
    }
    async with running_server(directory, settings=whole) as server:
        address, headers = f"{server.address}/apps/embedding", {"authorization": "Bearer dev:ann"}
        async with plain_http(base_url=address, headers=headers, timeout=20) as ann:
            yield server, ann


async def usage(server: RunningServer, calls: int) -> dict[str, Any]:
    """The row of embeddings in the user's usage, once it has so many calls."""
    async with rest(server, "dev:ann") as client, asyncio.timeout(10):
        while True:
            sums = (await client.get("/usage", params={"by": "purpose,model", "start": "2026-01-01"})).json()["sums"]
            for row in sums:
                if row["keys"]["purpose"] == "embedding" and row["calls"] == calls:
                    return dict(row)
            await asyncio.sleep(0.02)


async def test_texts_are_embedded_in_batches_that_are_counted_and_paid(provider: ModelServer, tmp_path: Path) -> None:
    async with embedding(tmp_path) as (server, ann):
        texts = ["a" * length for length in range(1, 11)]
        found = (await ann.post("/vectors", json={"texts": texts})).json()
        assert found["vectors"] == [[length, 1] for length in range(1, 11)]
        assert (found["model"], found["dimensions"], found["tokens"]) == (MODEL, 2, 30) and not found["is_estimated"]
        assert [len(body["input"]) for body in provider.embedded] == [4, 4, 2]
        query = (await ann.post("/vectors", json={"texts": ["abc"], "kind": "query"})).json()
        assert query["vectors"] == [[3, 1]]
        row = await usage(server, 4)
        assert (
            row["keys"]["model"] == MODEL
            and row["input_tokens"] == 33
            and row["costs"] == [{"currency": "USD", "amount": 33}]
        )
        labels = (
            f'error_type="",gen_ai_operation_name="embeddings",'
            f'gen_ai_provider_name="openai",gen_ai_request_model="{MODEL}"'
        )
        assert await metric_at(server.internal, f"gen_ai_client_operation_duration_seconds_count{{{labels}}}") == 4
        own = (await ann.post("/vectors", json={"texts": ["banana"], "model": OWN})).json()
        assert own["vectors"] == [[6, 3]] and own["is_estimated"]


async def test_tokens_that_nobody_tells_are_estimated(provider: ModelServer, tmp_path: Path) -> None:
    provider.tells_usage = False
    async with embedding(tmp_path) as (server, ann):
        found = (await ann.post("/vectors", json={"texts": ["abcd" * 10]})).json()
        assert (found["tokens"], found["is_estimated"]) == (10, True)
        assert (await usage(server, 1))["input_tokens"] == 10


async def test_an_estimate_asks_nobody(provider: ModelServer, tmp_path: Path) -> None:
    async with embedding(tmp_path) as (_, ann):
        found = (await ann.post("/costs", json={"texts": ["abcd" * 10] * 9})).json()
        assert found == {"model": MODEL, "tokens": 90, "calls": 3, "cost": 90, "currency": "USD"}
        unread = (await ann.post("/costs", json={"texts": ["abcd" * 10] * 4, "size": 200})).json()
        assert unread == {"model": MODEL, "tokens": 90, "calls": 2, "cost": 90, "currency": "USD"}
        own = (await ann.post("/costs", json={"texts": ["abcd" * 10] * 9, "model": OWN})).json()
        assert own == {"model": OWN, "tokens": 90, "calls": 3, "cost": None, "currency": None}
    assert provider.embedded == []


async def test_who_has_spent_a_budget_is_refused_between_two_batches(provider: ModelServer, tmp_path: Path) -> None:
    budgets = {"users": {"ann": {"cost": 20}}}
    async with embedding(tmp_path, budgets=budgets) as (server, ann):
        refused = await ann.post("/vectors", json={"texts": ["a"] * 12})
        assert (refused.status_code, error_of(refused)["code"]) == (429, "budget_exceeded")
        assert len(provider.embedded) == 2
        refused = await ann.post("/vectors", json={"texts": ["a"]})
        assert error_of(refused)["code"] == "budget_exceeded" and len(provider.embedded) == 2
        assert (await usage(server, 2))["costs"] == [{"currency": "USD", "amount": 24}]


def raw(body: object) -> Callable[[list[str]], str]:
    return lambda texts: json.dumps(body)


def item(numbers: object, place: int = 0) -> dict[str, Any]:
    return {"object": "embedding", "index": place, "embedding": numbers}


def listed(*items: object) -> Callable[[list[str]], str]:
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return raw({"object": "list", "model": MODEL, "data": list(items), "usage": usage})


FAILURES: dict[str, tuple[Callable[[list[str]], Any], tuple[int, str, bool]]] = {
    "401": (lambda texts: Reply(status=401), (502, "model_refused_key", False)),
    "404": (lambda texts: Reply(status=404), (502, "model_not_found", False)),
    "400": (lambda texts: Reply(status=400), (502, "model_error", False)),
    "500": (lambda texts: Reply(status=500), (502, "model_error", True)),
    "cut": (lambda texts: Reply(cut_after=0), (502, "model_error", True)),
    "too_long": (
        lambda texts: Reply(status=400, refusal={"error": {"message": "x", "code": "context_length_exceeded"}}),
        (422, "context_too_long", False),
    ),
    "quota": (
        lambda texts: Reply(status=429, refusal={"error": {"message": "x", "code": "insufficient_quota"}}),
        (502, "model_quota", False),
    ),
    "late": (lambda texts: Reply(late_s=3), (504, "model_timeout", True)),
    "too_few": (lambda texts: [[1.0, 2.0]], (502, "model_error", False)),
    "too_many": (lambda texts: [[1.0, 2.0]] * 3, (502, "model_error", False)),
    "nan": (lambda texts: [[1.0, 2.0], [float("nan"), 1.0]], (502, "model_error", False)),
    "infinite": (lambda texts: [[1.0, 2.0], [1e39, 1.0]], (502, "model_error", False)),
    "uneven": (lambda texts: [[1.0, 2.0], [1.0]], (502, "model_error", False)),
    "other_length": (lambda texts: [[1.0]] * len(texts), (502, "model_error", False)),
    "none": (lambda texts: [], (502, "model_error", True)),
    "empty": (lambda texts: [[], []], (502, "model_error", False)),
    "nothing": (listed(item(None), item(None, 1)), (502, "model_error", False)),
    "objects": (listed({}, {}), (502, "model_error", False)),
    "no_json": (lambda texts: "<html>", (502, "model_error", True)),
    "other": (raw([1, 2]), (502, "model_error", True)),
}


@pytest.mark.parametrize("failure", further_but(["401", "late", "quota", "too_few", "nan", "uneven", "cut"], FAILURES))
async def test_a_failure_is_typed_and_nothing_is_half_taken(
    failure: str, provider: ModelServer, tmp_path: Path
) -> None:
    embed, expected = FAILURES[failure]
    # The second batch fails.
    provider.embed = lambda texts: embed(texts) if "bad" in texts else [[1.0, 2.0] for _ in texts]
    model = {"batch_texts": 2, "timeout_s": 0.8}
    async with embedding(tmp_path, model=model) as (_, ann):
        failed = await ann.post("/vectors", json={"texts": ["hunter2", "good", "bad", "worse"]})
        error = error_of(failed)
        assert (failed.status_code, error["code"], error["retryable"]) == expected, error
        assert "language" not in error["content"] and "hunter2" not in str(error)
        # Another one goes on.
        assert (await ann.post("/vectors", json={"texts": ["good"]})).status_code == 200


async def test_a_rate_limit_is_waited_for_or_told(provider: ModelServer, tmp_path: Path) -> None:
    async with embedding(tmp_path) as (_, ann):
        limited = Reply(status=429, headers={"retry-after-ms": "20", "retry-after": "7"})
        provider.embed = lambda texts: limited if len(provider.embedded) < 2 else [[1.0] for _ in texts]
        assert (await ann.post("/vectors", json={"texts": ["a"]})).json()["vectors"] == [[1]]
        provider.embed = lambda texts: limited
        error = error_of(await ann.post("/vectors", json={"texts": ["a"]}))
        assert (error["code"], error["retryable"], error["retry_after_s"]) == ("model_error", True, 7)


async def test_deep_validation_calls_it(provider: ModelServer) -> None:
    models = load_embeddings({"mine": EmbeddingSettings(model=f"openai:{MODEL}")}).models
    assert "vectors of 2 numbers" in await check_embedding("mine", models["mine"])
    provider.embed = lambda texts: Reply(status=401)
    with pytest.raises(CheckFailed) as raised:
        await check_embedding("mine", models["mine"])
    assert raised.value.change == "set the key that embeddings.mine needs"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"texts": [""]}, "application_unavailable"),
        ({"texts": ["a"] * 2_001}, "application_unavailable"),
        ({"texts": ["a"], "kind": "other"}, "application_unavailable"),
        ({"texts": ["a" * 100_001]}, "context_too_long"),
        ({"texts": ["a"], "model": "absent"}, "agent_unavailable"),
    ],
)
async def test_what_cannot_be_embedded_is_refused_before_it_is_asked(
    body: dict[str, Any], code: str, provider: ModelServer, tmp_path: Path
) -> None:
    async with embedding(tmp_path) as (_, ann):
        assert error_of(await ann.post("/vectors", json=body))["code"] == code
        assert (await ann.post("/vectors", json={"texts": []})).json()["vectors"] == []
    assert provider.embedded == []


def test_vectors_of_other_dimensions_are_those_of_another_version() -> None:
    models = [
        EmbeddingModel(ScriptedEmbeddings(), EmbeddingSettings(model=f"openai:{MODEL}", options=options))
        for options in ({}, {"dimensions": 256})
    ]
    assert [model.version for model in models] == [MODEL, f"{MODEL}:256"]
