"""Both clients against all that may be in the way: their callers get the same, in time."""

import asyncio
import errno
import selectors
import time
from pathlib import Path
from typing import Any

import pytest
from support.client_behaviours import BEHAVIOURS, TOKEN_BOUND_S, Behaviour, Outcome, Visits, misbehaving
from support.further_cases import further
from support.typescript_client import Consumer, typescript_client

from agentic_backend.client import AwaitingHuman, Chat, Refused, TurnedAway, Unreachable, answer, connect

CLIENTS = Path(__file__).parents[2] / "docs" / "clients.md"

# Another status or code of the same table, or another way in which the same function fails.
LIKE_OTHERS = {
    *("status-400", "status-404", "status-408-once", "status-418-once", "retry-after-of-500", "token-fails-once"),
    *("rate_limited-once", "too_many_runs-once"),
}
# What is read of an answer is the same, however it is got.
LIKE_OTHERS_BY_HTTP = LIKE_OTHERS | {
    *("status-418", "status-426", "status-429", "redirect-to-nowhere", "redirect-to-rubbish"),
    *("retry-after-beyond-patience", "retry-after-a-day-beyond-patience", "retry-after-that-is-rubbish"),
}


def tried(behaviours: list[Behaviour], like_others: set[str]) -> list[Any]:
    return [
        (further if behaviour.name in like_others else pytest.param)(behaviour, id=behaviour.name)
        for behaviour in behaviours
    ]


assert {behaviour.name for behaviour in BEHAVIOURS} >= LIKE_OTHERS_BY_HTTP

every_behaviour = pytest.mark.parametrize("behaviour", tried(BEHAVIOURS, LIKE_OTHERS))


class _FastSelector(selectors.DefaultSelector):
    def __init__(self, speed: float) -> None:
        super().__init__()
        self._speed = speed

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(timeout and timeout / self._speed)


class _FastLoop(asyncio.SelectorEventLoop):
    """All of its timers run faster."""

    def __init__(self, speed: float) -> None:
        self._speed = speed
        super().__init__(_FastSelector(speed))

    def time(self) -> float:
        return super().time() * self._speed


def _token_function(trouble: dict[str, Any] | None) -> Any:
    asked = 0

    async def token() -> str:
        nonlocal asked
        asked += 1
        if trouble is not None and (trouble["always"] or asked == 1):
            if trouble["trouble"] == "raises":
                raise RuntimeError("secret")
            if trouble["trouble"] == "fails":
                raise RuntimeError("secret") from ConnectionRefusedError(errno.ECONNREFUSED, "secret")
            await asyncio.Event().wait()
        return "t"

    return token


async def _call(chat: Chat, behaviour: Behaviour) -> None:
    if behaviour.call == "ask":
        assert await chat.ask_text("hi") == "done"
        return
    async for event in chat.ask("hi"):
        if isinstance(event, AwaitingHuman):
            if behaviour.call == "decide":
                await chat.decide(event, answer(event.payload.requests[0], "yes"))
            else:
                await chat.stop(session_id=event.session_id)
            return


async def _left_by_python(address: str, behaviour: Behaviour, visits: Visits) -> tuple[Outcome, float]:
    """Leave a client that waits for a token, or for the server."""
    called = asyncio.Event()
    give = _token_function(behaviour.token)

    async def token() -> str:
        called.set()
        return await give()

    async def connected() -> None:
        async with connect(address, token=token, patience_s=behaviour.patience_s):
            pass

    connecting = asyncio.create_task(connected())
    while not (visits or (called.is_set() and behaviour.token)):
        await asyncio.sleep(0.01)
    left_at = asyncio.get_running_loop().time()
    connecting.cancel()
    await asyncio.wait({connecting})
    return Outcome("left"), asyncio.get_running_loop().time() - left_at


async def _of_python(address: str, behaviour: Behaviour, visits: Visits) -> tuple[Outcome, float]:
    if behaviour.call == "leave":
        return await _left_by_python(address, behaviour, visits)
    began_at = asyncio.get_running_loop().time()
    try:
        async with connect(address, token=_token_function(behaviour.token), patience_s=behaviour.patience_s) as chat:
            await _call(chat, behaviour)
        outcome = Outcome("answered")
    except TurnedAway as error:
        outcome = Outcome("turned_away", error.code, str(error))
    except Unreachable as error:
        outcome = Outcome("unreachable", error.code, str(error))
    except Refused as error:
        outcome = Outcome("refused", error.code, str(error))
    return outcome, asyncio.get_running_loop().time() - began_at


def _check(behaviour: Behaviour, outcome: Outcome, took_s: float, visits: Visits, cause: str) -> None:
    wanted = behaviour.outcome
    assert (outcome.kind, outcome.code) == (wanted.kind, wanted.code), outcome
    assert wanted.says in outcome.says and cause in outcome.says
    assert "secret" not in outcome.says
    if wanted.kind == "left":
        assert took_s < TOKEN_BOUND_S
    if wanted.kind == "unreachable":
        assert took_s >= behaviour.patience_s
    if behaviour.visits is not None:
        assert len(visits) == behaviour.visits
    if behaviour.waits_s is not None:
        least, most = behaviour.waits_s
        assert least <= (visits[1] - visits[0]) * behaviour.speed <= most


@every_behaviour
async def test_the_python_client(behaviour: Behaviour, tmp_path: Path) -> None:
    def run() -> tuple[Outcome, float]:
        with asyncio.Runner(loop_factory=lambda: _FastLoop(behaviour.speed)) as runner:
            return runner.run(_of_python(address, behaviour, visits))

    async with misbehaving(behaviour, tmp_path) as (address, visits):
        _check(behaviour, *await asyncio.to_thread(run), visits, behaviour.cause[0])


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
async def test_the_typescript_client(consumer: Consumer, behaviour: Behaviour, tmp_path: Path) -> None:
    await _check_typescript(consumer, behaviour, tmp_path, native=False)


@pytest.mark.typescript
@pytest.mark.parametrize("behaviour", tried([each for each in BEHAVIOURS if each.is_told_by_http], LIKE_OTHERS_BY_HTTP))
async def test_the_typescript_client_whose_sockets_tell_nothing_of_http(
    consumer: Consumer, behaviour: Behaviour, tmp_path: Path
) -> None:
    await _check_typescript(consumer, behaviour, tmp_path, native=True)


async def _check_typescript(consumer: Consumer, behaviour: Behaviour, directory: Path, native: bool) -> None:
    patience, speed = behaviour.patience_s, behaviour.speed
    options = {"patience": patience, "speed": speed, "token": behaviour.token, "native": native}
    async with (
        misbehaving(behaviour, directory) as (address, visits),
        typescript_client(consumer, address, "t", "t", **options) as client,
    ):
        if behaviour.call == "leave":
            await client.until(lambda line: line.get("phase") == ("connecting" if behaviour.token else "open"))
            left_at = time.monotonic()
            assert await client.close() == 0
            return _check(behaviour, Outcome("left"), time.monotonic() - left_at, visits, "")
        await client.tell("ask", **{"as": "it", "message": "hi"})
        reader = "it"
        if behaviour.call != "ask":
            reader, waiting = "call", await client.event("it", "awaiting_human")
            [request] = waiting["payload"]["requests"]
            made = [{"request": request, "decision": {"action": "answer", "answer": "yes"}}]
            call = {"event": waiting, "made": made} if behaviour.call == "decide" else {"session_id": "s1"}
            await client.tell(behaviour.call, **{"as": reader}, **call)
        told = await client.until(
            lambda line: line.get("from") == reader and line.keys() & {"ended", "taken", "failed"}
        )
        if "failed" not in told:
            outcome = Outcome("answered")
        elif told["failed"] == "Refused":
            outcome = Outcome("refused", told["code"], told["message"])
        else:
            assert told["failed"] == "Disconnected"
            kind = "unreachable" if told["of"] == "unreachable" else "turned_away"
            outcome = Outcome(kind, told["code"], told["message"])
        _check(behaviour, outcome, told["after_s"], visits, behaviour.cause[1])
