"""UsageLedger: what no exchange stores is stored in the background, however the store and the models behave."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from support.failing_store import FailingStore
from support.recorded_agents import eventually, metric

from agentic_backend.config.topics.usage import PriceSettings
from agentic_backend.kpi import Kpi
from agentic_backend.policy.usage import usage_ledger as module
from agentic_backend.policy.usage.prices import Prices
from agentic_backend.policy.usage.usage_ledger import Payer, UsageLedger, count_call
from agentic_backend.stores.protocol.trail import TrailQuery, UsageRecord
from agentic_backend.stores.sqlite import SqliteStore
from agentic_backend.streaming.model import model_calls
from agentic_backend.streaming.model.model_calls import CallTokens, ModelCall

PRICE = PriceSettings.model_validate(
    {"model": "*", "input_per_million": 1_000_000, "output_per_million": 0, "from": "2026-01-01"}
)
ANN = Payer("ann", ("class",), agent_id="assistant")


class Judge(BaseChatModel):
    """Answers `fair` after `takes_s`, or raises `error`, or never answers."""

    error: Exception | None = None
    counts: bool = True
    hangs: bool = False
    takes_s: float = 0

    @property
    def _llm_type(self) -> str:
        return "judge"

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(self, *args: Any, **kwargs: Any) -> ChatResult:
        if self.hangs:
            await asyncio.Event().wait()
        await asyncio.sleep(self.takes_s)
        if self.error is not None:
            raise self.error
        usage = UsageMetadata(input_tokens=7, output_tokens=1, total_tokens=8) if self.counts else None
        message = AIMessage("fair", usage_metadata=usage, response_metadata={"model_name": "judge-1"})
        return ChatResult(generations=[ChatGeneration(message=message)])


class Hasty(Judge):
    """Says 24 bytes as they come, whoever asks, and then raises `error`, or goes on for ever."""

    streaming: bool

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        said: list[Any] = ["f\u00e4ir, i", [{"type": "reasoning", "reasoning": "mmmm"}]]
        for content in said:
            yield ChatGenerationChunk(message=AIMessageChunk(content))
        called = {"name": "act", "args": '{"x": "12"}', "id": "c", "index": 0, "type": "tool_call_chunk"}
        yield ChatGenerationChunk(message=AIMessageChunk("", tool_call_chunks=[called]))
        if self.error is not None:
            raise self.error
        await asyncio.Event().wait()


def refusal(status: int) -> Exception:
    response = httpx.Response(status, request=httpx.Request("POST", "http://provider"))
    return openai.APIStatusError("no", response=response, body=None)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[FailingStore]:
    real = await SqliteStore.open(tmp_path / "chat.sqlite3", timeout_s=10)
    yield FailingStore(real)
    await real.aclose()


@pytest.fixture
def kpi() -> Kpi:
    return Kpi()


@pytest.fixture
async def ledger(store: FailingStore, kpi: Kpi) -> AsyncIterator[UsageLedger]:
    ledger = UsageLedger(store.as_store, Prices([PRICE]), kpi)
    yield ledger
    await ledger.aclose()


async def stored(store: FailingStore) -> list[UsageRecord]:
    return (await store.real.trail(TrailQuery(UsageRecord))).records


def called(number: int) -> ModelCall:
    return ModelCall(f"call-{number}", "m", "module", 0.5, CallTokens(1, 1))


async def test_an_ask_is_recorded_and_counted(store: FailingStore, ledger: UsageLedger, kpi: Kpi) -> None:
    answer = await ledger.ask(Judge(), [HumanMessage("Is it fair?")], ANN, "module")
    assert answer.text == "fair"
    await ledger.aclose()
    [record] = await stored(store)
    assert (record.user_id, record.group, record.agent_id) == ("ann", "class", "assistant")
    assert (record.purpose, record.model, record.input_tokens, record.output_tokens) == ("module", "judge-1", 7, 1)
    assert (record.cost, record.currency) == (7.0, "USD")
    assert metric(kpi, "chat_model_cost_total", model="judge-1", currency="USD", estimated="false") == 7.0


# 100 tokens, with those around the message.
QUESTION = HumanMessage("?" * 4 * 96)
UNSENT = openai.APIConnectionError(request=httpx.Request("POST", "http://provider"))
UNSENT.__cause__ = httpx.ConnectError("nobody listens")


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        (Judge(hangs=True), (100, 0)),
        (Judge(error=TimeoutError()), (100, 0)),
        (Judge(error=httpx.ReadError("gone")), (100, 0)),
        (Judge(counts=False), (100, 1)),
        (Hasty(streaming=True), (100, 6)),
        (Hasty(streaming=True, error=ValueError("broken")), (100, 6)),
        (Judge(error=ValueError("broken")), None),
        (Judge(error=httpx.ConnectTimeout("nobody listens")), None),
        (Judge(error=UNSENT), None),
        (Judge(error=refusal(429)), None),
        (Judge(error=refusal(401)), None),
    ],
)
async def test_tokens_that_no_provider_tells_are_estimated_if_it_was_at_work(
    store: FailingStore, ledger: UsageLedger, kpi: Kpi, model: BaseChatModel, tokens: tuple[int, int] | None
) -> None:
    with contextlib.suppress(Exception):
        async with asyncio.timeout(0.05):
            await ledger.ask(model, [QUESTION], ANN, "summary")
    await ledger.aclose()
    [record] = await stored(store)
    assert (record.purpose, record.estimated) == ("summary", True if tokens else None)
    assert (record.input_tokens, record.output_tokens) == (tokens or (None, None))
    assert record.cost == (tokens[0] if tokens else None)
    counted = metric(kpi, "chat_model_cost_total", model=record.model, currency="USD", estimated="true")
    assert counted == (record.cost or 0)


async def test_the_tools_that_a_model_is_told_of_are_part_of_what_is_sent(
    store: FailingStore, ledger: UsageLedger
) -> None:
    tool = {"type": "function", "function": {"name": "add", "description": "a" * 4_000}}
    bound: Any = Judge(counts=False).bind(tools=[tool])
    await ledger.ask(bound, [QUESTION], ANN, "module")
    await ledger.aclose()
    [record] = await stored(store)
    assert record.input_tokens is not None and 1_100 < record.input_tokens < 1_200


async def test_an_ask_that_takes_long_is_recorded_before_its_end(
    store: FailingStore, ledger: UsageLedger, kpi: Kpi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_calls, "_LONG_S", 0.05)
    asking = asyncio.create_task(ledger.ask(Judge(takes_s=0.6), [HumanMessage("?")], ANN, "module"))
    await asyncio.sleep(0.3)
    [begun] = await stored(store)
    assert (begun.user_id, begun.purpose, begun.input_tokens, begun.cost) == ("ann", "module", None, None)
    await asking
    await ledger.aclose()
    [ended] = await stored(store)
    assert (ended.id, ended.model, ended.input_tokens, ended.cost) == (begun.id, "judge-1", 7, 7.0)
    assert abs(ended.at - begun.at) < timedelta(seconds=0.1)
    assert metric(kpi, "chat_model_cost_total", model="judge-1", currency="USD", estimated="false") == 7.0


async def test_an_ask_that_is_cancelled_is_recorded_as_ended(
    store: FailingStore, ledger: UsageLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[bool] = []
    monkeypatch.setattr(ledger.budgets, "add", lambda record, *, is_running: kept.append(is_running))
    monkeypatch.setattr(model_calls, "_LONG_S", 0.05)
    asking = asyncio.create_task(ledger.ask(Judge(hangs=True), [HumanMessage("?")], ANN, "title"))
    monkeypatch.setattr(ledger, "begin", lambda *_, **__: asking.cancel())
    await asyncio.wait({asking})
    # Past the moment at which a call that still runs is told of.
    await asyncio.sleep(0.1)
    assert kept[-1] is False


async def test_what_comes_after_it_is_closed_is_counted_as_lost(
    store: FailingStore, ledger: UsageLedger, kpi: Kpi, caplog: pytest.LogCaptureFixture
) -> None:
    await ledger.aclose()
    ledger.keep([ledger.record_of(called(1), ANN)])
    assert ledger._storing is None
    assert [getattr(record, "lost", 0) for record in caplog.records] == [1]
    assert metric(kpi, "chat_usage_lost_total") == 1


async def test_records_that_the_store_refuses_keep_back_no_later_ones(
    store: FailingStore, ledger: UsageLedger, kpi: Kpi, caplog: pytest.LogCaptureFixture
) -> None:
    ledger.keep([ledger.record_of(called(1), replace(ANN, groups=("\ud800",)))])
    await eventually(lambda: ledger._storing is None)
    ledger.keep([ledger.record_of(called(2), ANN)])
    await eventually(lambda: ledger._storing is None)
    assert [record.id for record in await stored(store)] == ["call-2"]
    assert [getattr(record, "lost", 0) for record in caplog.records] == [1]
    assert metric(kpi, "chat_usage_lost_total") == 1


async def test_nothing_is_lost_while_the_store_is_away(
    store: FailingStore, ledger: UsageLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FIRST_RETRY_S", 0.01)
    store.go_away("add_trail")
    for number in range(250):
        ledger.keep([ledger.record_of(called(number), ANN)])
    await asyncio.sleep(0.05)
    store.come_back()
    await eventually(lambda: ledger._storing is None)
    for number in range(250, 300):
        ledger.keep([ledger.record_of(called(number), ANN)])
    await ledger.aclose()
    page = await store.real.trail(TrailQuery(UsageRecord, limit=1_000))
    assert {record.id for record in page.records} == {f"call-{number}" for number in range(300)}


async def test_the_oldest_give_way_in_a_long_outage_and_the_log_says_so(
    store: FailingStore,
    ledger: UsageLedger,
    kpi: Kpi,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(module, "_WAITING_AT_MOST", 10)
    monkeypatch.setattr(module, "_FIRST_RETRY_S", 0.01)
    store.go_away("add_trail")
    for number in range(15):
        ledger.keep([ledger.record_of(called(number), ANN)])
        await asyncio.sleep(0)
    store.come_back()
    await ledger.aclose()
    assert {record.id for record in await stored(store)} == {f"call-{number}" for number in range(5, 15)}
    assert sum(getattr(record, "lost", 0) for record in caplog.records) == 5
    assert metric(kpi, "chat_usage_lost_total") == 5


async def test_what_comes_while_the_oldest_are_stored_is_stored_too(
    store: FailingStore, ledger: UsageLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_WAITING_AT_MOST", 3)
    stored_at_last = store.hold("add_trail")
    for number in range(3):
        ledger.keep([ledger.record_of(called(number), ANN)])
    await asyncio.sleep(0)
    # They take the places of those that are on their way.
    for number in range(3, 6):
        ledger.keep([ledger.record_of(called(number), ANN)])
    stored_at_last.set()
    await eventually(lambda: ledger._storing is None)
    await ledger.aclose()
    assert {f"call-{number}" for number in range(3, 6)} <= {record.id for record in await stored(store)}


async def test_it_closes_though_the_store_stays_away(
    store: FailingStore,
    ledger: UsageLedger,
    kpi: Kpi,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(module, "_CLOSING_S", 0.05)
    store.go_away("add_trail")
    ledger.keep([ledger.record_of(called(1), ANN)])
    with caplog.at_level(logging.ERROR):
        await ledger.aclose()
    assert [getattr(record, "lost", 0) for record in caplog.records] == [1]
    assert metric(kpi, "chat_usage_lost_total") == 1


@pytest.mark.parametrize(("first_chunk_s", "told"), [(None, []), (2.5, []), (2.6, [("m", "module", 2600)])])
def test_a_model_whose_first_words_come_late_is_told(
    kpi: Kpi, caplog: pytest.LogCaptureFixture, first_chunk_s: float | None, told: list[tuple[str, str, int]]
) -> None:
    count_call(kpi, replace(called(1), duration_s=30, first_chunk_s=first_chunk_s))
    lines = [vars(record) for record in caplog.records if record.message == "model answers late"]
    assert [(line["model"], line["purpose"], line["first_chunk_ms"]) for line in lines] == told
