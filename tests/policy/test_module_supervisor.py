"""The supervisor starts and closes modules, and says which one can't start."""

from pathlib import Path
from typing import Any

import pytest
from support.hostile_modules import MADE, PATH, Acting, entry, specs

from agentic_backend.agents.catalog.catalog import AgentSettings
from agentic_backend.agents.run import authors_calls
from agentic_backend.kpi import Kpi
from agentic_backend.policy.chat_module import ModuleServices
from agentic_backend.policy.hooks.exchange_modules import ExchangeModules
from agentic_backend.policy.hooks.module_supervisor import CannotStartModule, ModuleSupervisor
from agentic_backend.protocol.messages import Channel, utc_now
from agentic_backend.stores.protocol.trail import ModuleErrorRecord
from agentic_backend.stores.records import ExchangeRecord
from agentic_backend.stores.sqlite import SqliteStore


class Unstartable(Acting):
    async def start(self) -> None:
        raise OSError("secret host")


class Unclosable(Acting):
    async def aclose(self) -> None:
        raise OSError("secret host")


async def _no_answer(name: str | None, system: str, text: str) -> str:
    return ""


async def supervisor(tmp_path: Path, *entries: dict[str, Any]) -> ModuleSupervisor:
    store = await SqliteStore.open(tmp_path / "chat.sqlite3", timeout_s=5)
    await store.aclose()
    made = ModuleSupervisor(store, Kpi(), lambda work: None)
    await made.start(specs(tmp_path, *entries), ModuleServices(_no_answer))
    return made


async def test_a_module_that_cannot_start_is_named_without_its_words(tmp_path: Path) -> None:
    with pytest.raises(CannotStartModule, match=r"'late' can't start: OSError at .*test_module_supervisor") as caught:
        await supervisor(tmp_path, entry(), entry("late", class_path=f"{__name__}:Unstartable"))
    assert "secret" not in str(caught.value)


async def test_a_module_that_cannot_close_holds_nobody_up(tmp_path: Path) -> None:
    made = await supervisor(tmp_path, entry("closing", class_path=f"{__name__}:Unclosable"), entry())
    await made.aclose()


async def test_health_tells_of_each_module(tmp_path: Path) -> None:
    made = await supervisor(tmp_path, entry(priority=9), entry("first", priority=1, on_failure="block"))
    first, second = made.health
    assert (first.name, first.on_failure, first.calls, first.last_error) == ("first", "block", 0, None)
    assert (second.class_path, set(second.circuits.values())) == (f"{PATH}:Acting", {"closed"})


def in_an_exchange(made: ModuleSupervisor) -> ExchangeModules:
    record = ExchangeRecord(
        id="e", session_id="", user_id="u", agent_id="echo", request_id="r", started_at=utc_now(), owner="here"
    )
    modules = made.of_exchange(record, AgentSettings(id="echo", class_path="a:b"), None, {})
    assert modules is not None
    return modules


async def error_of(modules: ExchangeModules) -> str:
    reviewed = await modules.after_ai("text", Channel.FINAL, [], 0, within_s=0.01)
    [error] = reviewed.trail
    assert isinstance(error, ModuleErrorRecord)
    return error.error


async def test_timeouts_of_a_module_that_had_little_time_open_no_circuit(tmp_path: Path) -> None:
    """Else people could switch it off for all, by stopping their exchanges again and again."""
    made = await supervisor(tmp_path, entry(settings={"after": "hang"}, timeout_s=1))
    modules = in_an_exchange(made)
    for _ in range(7):
        assert await error_of(modules) == "timeout"
    assert set(made.health[0].circuits.values()) == {"closed"}
    await made.aclose()


async def test_a_module_whose_calls_do_not_end_is_called_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authors_calls, "_GIVEN_UP_AT_MOST", 3)
    MADE.clear()
    made = await supervisor(tmp_path, entry(settings={"after": "hang_stubbornly"}, timeout_s=1))
    modules = in_an_exchange(made)
    assert [await error_of(modules) for _ in range(5)] == ["timeout"] * 3 + ["too_many_running"] * 2
    [module] = MADE
    assert len(module.seen) == 3
    await made.aclose()
