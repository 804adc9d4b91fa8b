"""UsageLedger: what no exchange stores is stored in the background, however the store and the models behave."""

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from support.failing_store import FailingStore
from support.recorded_agents import eventually, metric

from agentic_backend.config.usage import PriceSettings
from agentic_backend.kpi import Kpi
from agentic_backend.policy import usage_ledger as module
from agentic_backend.policy.prices import Prices
from agentic_backend.policy.usage_ledger import Payer, UsageLedger, count_call
from agentic_backend.stores.sqlite import SqliteStore
from agentic_backend.stores.trail import TrailQuery, UsageRecord
from agentic_backend.streaming import model_calls
from agentic_backend.streaming.model_calls import CallTokens, ModelCall

PRICE = PriceSettings.model_validate(
    {"model": "*", "input_per_million": 1_000_000, "output_per_million": 0, "from": "2026-01-01"}
)
ANN = Payer("ann", "class", agent_id="assistant")


class Judge(BaseChatModel):
    """Answers `fair` after `takes_s`, or raises `error`, or never answers."""

    error: Exception | None = None
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
        usage = {"input_tokens": 7, "output_tokens": 1, "total_tokens": 8}
        message = AIMessage("fair", usage_metadata=usage, response_metadata={"model_name": "judge-1"})
        return ChatResult(generations=[ChatGeneration(message=message)])


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
    assert metric(kpi, "chat_model_cost_total", model="judge-1", currency="USD") == 7.0


async def test_an_ask_that_fails_is_recorded_without_tokens(store: FailingStore, ledger: UsageLedger) -> None:
    with pytest.raises(ValueError, match="broken"):
        await ledger.ask(Judge(error=ValueError("broken")), [HumanMessage("?")], ANN, "summary")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await ledger.ask(Judge(hangs=True), [HumanMessage("?")], ANN, "summary")
    await ledger.aclose()
    records = await stored(store)
    assert [(record.purpose, record.input_tokens, record.cost) for record in records] == [("summary", None, None)] * 2


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
    assert metric(kpi, "chat_model_cost_total", model="judge-1", currency="USD") == 7.0


async def test_records_that_the_store_refuses_keep_back_no_later_ones(
    store: FailingStore, ledger: UsageLedger, kpi: Kpi, caplog: pytest.LogCaptureFixture
) -> None:
    ledger.keep([ledger.record_of(called(1), replace(ANN, group="\ud800"))])
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
