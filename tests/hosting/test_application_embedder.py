"""An application's own embedder in a worker process, and models that settings and tests put in its place."""

import struct
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings
from support.embedding_application import OWN, Embedding
from support.rest_client import error_of

from agentic_backend.agents.code.class_path import ClassPathError
from agentic_backend.agents.models.chat_models import ModelUnavailable, load_embeddings
from agentic_backend.agents.models.vectors import NoVectors, vectors_of
from agentic_backend.application import Worker, WorkerEmbedder
from agentic_backend.config.topics.embeddings import EmbeddingSettings
from agentic_backend.hosting.declared_work import declared_embedder
from agentic_backend.testing import ScriptedEmbeddings, open_application


async def test_the_worker_embeds_where_no_model_is_set() -> None:
    async with open_application(Embedding) as opened, opened.client("ann") as ann:
        found = (await ann.post("/vectors", json={"texts": ["a", "banana"] * 4})).json()
        assert found["vectors"] == [[1, 1], [6, 3]] * 4
        assert (found["model"], found["is_estimated"]) == (OWN, True)
        assert (await ann.post("/vectors", json={"texts": ["lists"]})).json()["vectors"] == [[5, 1]]
        for odd in ("nan", "short"):
            error = error_of(await ann.post("/vectors", json={"texts": [odd]}))
            assert (error["code"], error["retryable"]) == ("application_unavailable", False)


async def test_a_class_of_langchain_embeds_in_the_worker() -> None:
    settings = {"langchain": "support.uneven_embeddings:UnevenEmbeddings"}
    async with open_application(Embedding, settings) as opened, opened.client("ann") as ann:
        for kind in ("document", "query"):
            found = (await ann.post("/vectors", json={"texts": ["a", "b"], "kind": kind})).json()
            assert found["vectors"] == [[1, 0.5], [1, 0.5]]
        error = error_of(await ann.post("/vectors", json={"texts": ["a", "uneven"]}))
        assert (error["code"], error["retryable"]) == ("application_unavailable", False)


async def test_a_scripted_model_takes_its_place() -> None:
    scripted = ScriptedEmbeddings({"x": [1.0, 0.0]}, dimensions=2, errors=[TimeoutError()])
    async with open_application(Embedding, embeddings=scripted) as opened, opened.client("ann") as ann:
        assert error_of(await ann.post("/vectors", json={"texts": ["x"]}))["code"] == "model_timeout"
        assert (await ann.post("/vectors", json={"texts": ["x"], "kind": "query"})).json()["vectors"] == [[1, 0]]
        assert (await ann.post("/vectors", json={"texts": ["aa"], "model": OWN})).json()["vectors"] == [[2, 2]]
    assert scripted.asked == [("document", ["x"]), ("query", ["x"])]


async def test_without_any_model_none_is_there() -> None:
    async with open_application(Embedding, {"has_own": False}) as opened, opened.client("ann") as ann:
        error = error_of(await ann.post("/vectors", json={"texts": ["x"]}))
        assert (error["code"], error["retryable"]) == ("agent_unavailable", False)


def test_texts_that_share_words_are_near() -> None:
    one, near, far = ScriptedEmbeddings().embed_documents(["a red boat", "the red boat", "two green trees"])

    def product(left: list[float], right: list[float]) -> float:
        return sum(a * b for a, b in zip(left, right, strict=True))

    assert product(one, one) == pytest.approx(1) and product(one, near) > product(one, far)


class NoArguments(Embeddings):
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[1.0] for _ in texts]

    def embed_query(self, text: str) -> list[float]:
        return [1.0]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"class_path": "absent.module:Name"}, "no module named 'absent'"),
        ({"class_path": "support.embedding_application:Letters"}, "is no class of LangChain's Embeddings"),
        ({"class_path": f"{__name__}:NoArguments", "options": {"key": "hunter2"}}, "NoArguments"),
        ({"model": "openai:text-embedding-3-small"}, "OPENAI_API_KEY"),
        ({"model": "nobody:model"}, "nobody"),
    ],
)
def test_a_model_that_cannot_be_built_says_why(
    settings: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ModelUnavailable) as raised:
        load_embeddings({"mine": EmbeddingSettings(**settings)})
    assert str(raised.value).startswith("embeddings.mine: ") and said in str(raised.value)
    assert "hunter2" not in str(raised.value)


async def test_a_class_of_langchain_embeds_by_its_path() -> None:
    models = load_embeddings({"mine": EmbeddingSettings(class_path=f"{__name__}:NoArguments")})
    mine = models.models["mine"]
    assert [list(vector) for vector in (await mine.embed(["a", "b"], "document")).vectors] == [[1], [1]]


@pytest.mark.parametrize(
    ("given", "count"),
    [
        (b"", 1),
        (b"1234", 3),
        (struct.pack("2f", 1, float("inf")), 2),
        ([[1.0] * 20_000], 1),
        ([[1.0], {}], 2),
        ([[10**400]], 1),
        ([["1"]], 1),
        ("ab", 2),
        ({"a": 1}, 1),
        (None, 1),
    ],
)
def test_what_are_no_vectors_are_refused(given: object, count: int) -> None:
    with pytest.raises(NoVectors):
        vectors_of(given, count)


WORKERS = [Worker("w", "a:B")]


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ("embedder", "'embedder' has to answer"),
        (WorkerEmbedder("", "w"), "the model"),
        (WorkerEmbedder("m", "v"), "no such worker"),
        (WorkerEmbedder("m", "w", method="a.b"), "method"),
        (WorkerEmbedder("m", "w", batch_texts=0), "batch_texts"),
        (WorkerEmbedder("m", "w", batch_characters=True), "batch_characters"),
        (WorkerEmbedder("m", "w", timeout_s=10**9), "timeout_s"),
    ],
)
def test_an_odd_embedder_is_refused(declared: object, said: str) -> None:
    with pytest.raises(ClassPathError, match=said):
        declared_embedder(declared, WORKERS)
    assert declared_embedder(None, []) is None
