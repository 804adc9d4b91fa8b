"""Both clients against all that may be in the way: their callers get the same, in time."""

import asyncio
import selectors
from pathlib import Path
from typing import Any

import pytest
from support.client_behaviours import BEHAVIOURS, SPEED, Behaviour, Outcome, Visits, misbehaving
from support.typescript_client import Consumer, typescript_client

from agentic_backend.client import Refused, TurnedAway, Unreachable, connect

CLIENTS = Path(__file__).parents[2] / "docs" / "clients.md"

every_behaviour = pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda behaviour: behaviour.name)


class _FastSelector(selectors.DefaultSelector):
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(timeout and timeout / SPEED)


class _FastLoop(asyncio.SelectorEventLoop):
    """All of its timers run faster."""

    def __init__(self) -> None:
        super().__init__(_FastSelector())

    def time(self) -> float:
        return super().time() * SPEED


def _token_function(trouble: dict[str, Any] | None) -> Any:
    asked = 0

    async def token() -> str:
        nonlocal asked
        asked += 1
        if trouble is not None and (trouble["always"] or asked == 1):
            if trouble["trouble"] == "raises":
                raise RuntimeError("secret")
            await asyncio.Event().wait()
        return "t"

    return token


async def _of_python(address: str, behaviour: Behaviour) -> tuple[Outcome, float]:
    began_at = asyncio.get_running_loop().time()
    try:
        async with connect(address, token=_token_function(behaviour.token), patience_s=behaviour.patience_s) as chat:
            assert await chat.ask_text("hi") == "done"
        outcome = Outcome("answered")
    except TurnedAway as error:
        outcome = Outcome("turned_away", error.code, str(error))
    except Unreachable as error:
        outcome = Outcome("unreachable", error.code, str(error))
    except Refused as error:
        outcome = Outcome("refused", error.code, str(error))
    return outcome, asyncio.get_running_loop().time() - began_at


def _check(behaviour: Behaviour, outcome: Outcome, took_s: float, visits: Visits) -> None:
    wanted = behaviour.outcome
    assert (outcome.kind, outcome.code) == (wanted.kind, wanted.code), outcome
    assert wanted.says in outcome.says
    assert "secret" not in outcome.says
    if wanted.kind == "unreachable":
        assert took_s >= behaviour.patience_s
    if behaviour.visits is not None:
        assert len(visits) == behaviour.visits
    if behaviour.waits_s is not None:
        least, most = behaviour.waits_s
        assert least <= (visits[1] - visits[0]) * SPEED <= most


@every_behaviour
async def test_the_python_client(behaviour: Behaviour) -> None:
    def run() -> tuple[Outcome, float]:
        with asyncio.Runner(loop_factory=_FastLoop) as runner:
            return runner.run(_of_python(address, behaviour))

    async with misbehaving(behaviour) as (address, visits):
        _check(behaviour, *await asyncio.to_thread(run), visits)


def test_the_guide_has_the_words_of_every_outcome() -> None:
    guide = CLIENTS.read_text()
    ours = ("http://127.0.0.1:", "https://chat.example/agentic.")
    for behaviour in BEHAVIOURS:
        words = behaviour.outcome.says
        for address in ours:
            words = words.removesuffix(address)
        assert words in guide


@pytest.mark.typescript
@every_behaviour
async def test_the_typescript_client(consumer: Consumer, behaviour: Behaviour) -> None:
    await _check_typescript(consumer, behaviour, native=False)


@pytest.mark.typescript
@pytest.mark.parametrize("behaviour", [each for each in BEHAVIOURS if each.is_told_by_http], ids=lambda each: each.name)
async def test_the_typescript_client_whose_sockets_tell_nothing_of_http(
    consumer: Consumer, behaviour: Behaviour
) -> None:
    await _check_typescript(consumer, behaviour, native=True)


async def _check_typescript(consumer: Consumer, behaviour: Behaviour, native: bool) -> None:
    options = {"patience": behaviour.patience_s, "speed": SPEED, "token": behaviour.token, "native": native}
    async with (
        misbehaving(behaviour) as (address, visits),
        typescript_client(consumer, address, "t", "t", **options) as client,
    ):
        await client.tell("ask", **{"as": "it", "message": "hi"})
        told = await client.until(lambda line: line.get("from") == "it" and ("ended" in line or "failed" in line))
        if "ended" in told:
            outcome = Outcome("answered")
        elif told["failed"] == "Refused":
            outcome = Outcome("refused", told["code"], told["message"])
        else:
            assert told["failed"] == "Disconnected"
            kind = "unreachable" if told["of"] == "unreachable" else "turned_away"
            outcome = Outcome(kind, told["code"], told["message"])
        _check(behaviour, outcome, told["after_s"], visits)
