"""The default embedder: the real model, in the worker process that a server gives it."""

import subprocess
import sys
from array import array
from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio

from agentic_backend.application import Worker
from agentic_backend.applications.retrieval.embedding import embedder
from agentic_backend.kpi import Kpi
from agentic_backend.worker_processes.worker_calls import Workers

PASSAGES = {
    "hours": "The library opens at nine in the morning and closes at six; on Sundays it stays shut.",
    "delivery": "We charge twelve euros for parcels abroad; above a hundred euros there is no charge.",
    "password": "A password needs at least twelve characters, and one of them is a digit.",
}
QUESTIONS = {
    "hours": "Wann macht die Bücherei zu?",
    "delivery": "Combien coûte la livraison à l'étranger ?",
    "password": "¿Qué longitud debe tener la contraseña?",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def workers() -> AsyncIterator[Workers]:
    declared = Worker("embedder", embedder.CLASS_PATH, memory_mb=embedder.MEMORY_MB)
    workers = Workers("retrieval", "Retrieval", [declared], Kpi().applications.workers)
    yield workers
    await workers.aclose()


async def embedded(workers: Workers, texts: Sequence[str], kind: str = "document") -> list[list[float]]:
    numbers = array("f", await workers.call("embedder", "ann", "embed", [list(texts), kind], embedder.TIMEOUT_S))
    size = embedder.DIMENSIONS
    assert len(numbers) == len(texts) * size
    return [numbers[start : start + size].tolist() for start in range(0, len(numbers), size)]


def nearness(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


@pytest.mark.asyncio(loop_scope="module")
async def test_questions_in_other_languages_find_their_passages(workers: Workers) -> None:
    passages = dict(zip(PASSAGES, await embedded(workers, [*PASSAGES.values()]), strict=True))
    questions = dict(zip(QUESTIONS, await embedded(workers, [*QUESTIONS.values()], "query"), strict=True))
    found = {
        asked: max(passages, key=lambda name: nearness(passages[name], question))
        for asked, question in questions.items()
    }
    assert found == {asked: asked for asked in questions}


@pytest.mark.asyncio(loop_scope="module")
async def test_an_answer_in_another_language_comes_before_what_is_in_the_same(workers: Workers) -> None:
    beside = "Für den Versand ins Ausland berechnen wir zwölf Euro, ab hundert Euro liefern wir frei Haus."
    [answer, other], [question] = (
        await embedded(workers, [PASSAGES["hours"], beside]),
        await embedded(workers, [QUESTIONS["hours"]], "query"),
    )
    assert nearness(answer, question) > nearness(other, question)


@pytest.mark.asyncio(loop_scope="module")
async def test_what_stands_behind_the_window_counts(workers: Workers) -> None:
    filler = "Nothing of interest happened on that day, and nobody wrote anything down. " * 60
    alone, with_end, [question] = (
        *await embedded(workers, [filler, filler + PASSAGES["password"] * 20]),
        await embedded(workers, [QUESTIONS["password"]], "query"),
    )
    assert nearness(with_end, question) > nearness(alone, question) + 0.02


@pytest.mark.asyncio(loop_scope="module")
async def test_any_text_has_a_vector_of_length_one_and_the_same_beside_others(workers: Workers) -> None:
    texts = ["", " \n\t", "\x00", "日本語", "e\u0301te\u0301", "été", "a" * 3000]
    vectors = await embedded(workers, texts)
    assert [nearness(each, each) for each in vectors] == pytest.approx([1.0] * len(texts), abs=1e-5)
    assert vectors[4] == vectors[5], "letters in two characters are the same"
    [alone] = await embedded(workers, texts[6:])
    assert alone == pytest.approx(vectors[6], abs=1e-5)


def test_the_server_imports_nothing_of_what_computes() -> None:
    loaded = f"import sys, {embedder.__name__}; print(*{{*sys.modules}} & {{*{embedder.PACKAGES!r}}}, 'none')"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["none"]


def test_what_is_missing_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    assert embedder.missing() is None
    monkeypatch.setattr(embedder, "PACKAGES", ("numpy", "package_that_is_absent"))
    said = embedder.missing()
    assert said and "agentic-backend[retrieval]" in said and "(missing: package_that_is_absent)" in said
