"""Faults of the database and the Redis of several instances, and of an instance's clock."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from gameday.fault import Fault
from gameday.site import Site

# More than the alerts call slow, and less than the server gives up.
STORE_LATE_S, REDIS_LATE_S = 0.3, 0.3
AHEAD_S = 60.0
ASK = ("words 3 0", None)
DEPENDENCIES = ("stores.json", "Dependencies, by instance")
REFUSED_FELT = "Asks are refused with `store_unavailable`; answers that are written wait with their end."


def refused(neighbour: str) -> Callable[[Site], AbstractAsyncContextManager[None]]:
    return lambda site: site.lines[neighbour].refused()


def black_holed(neighbour: str) -> Callable[[Site], AbstractAsyncContextManager[None]]:
    return lambda site: site.lines[neighbour].black_holed()


def slow(neighbour: str, late_s: float) -> Callable[[Site], AbstractAsyncContextManager[None]]:
    return lambda site: site.lines[neighbour].slow(late_s)


@asynccontextmanager
async def clock_set_wrong(site: Site) -> AsyncIterator[None]:
    assert site.clock is not None
    site.clock.ahead_s = AHEAD_S
    try:
        yield
    finally:
        site.clock.ahead_s = 0


STORE_FAULTS = [
    Fault(
        name="store refused",
        site="fleet",
        inject=refused("store"),
        alert="StoreAway",
        panel=DEPENDENCIES,
        runbook="the server is down",
        log="MongoDB failed",
        fields={"reason": "AutoReconnect|ConnectionFailure|ServerSelectionTimeoutError"},
        felt=REFUSED_FELT,
        ask=ASK,
        outcome="store_unavailable",
        ready="store_unavailable",
    ),
    Fault(
        name="store black-holed",
        site="fleet",
        inject=black_holed("store"),
        alert="StoreAway",
        panel=DEPENDENCIES,
        runbook="a firewall drops packets",
        log="MongoDB failed",
        fields={"reason": "Timeout"},
        felt=REFUSED_FELT,
        ask=ASK,
        outcome="store_unavailable",
        ready="store_unavailable",
    ),
    Fault(
        name="store slow",
        site="fleet",
        inject=slow("store", STORE_LATE_S),
        alert="StoreSlow",
        panel=("stores.json", "Time of operations, p95 and p99"),
        runbook="`store answers late`",
        log="store answers late",
        fields={"operation": r"\w+", "took_ms": r"\d{3,}"},
        felt="Each step of an answer takes longer; nothing fails.",
        ask=ASK,
    ),
    Fault(
        name="clock skew",
        site="fleet",
        inject=clock_set_wrong,
        alert="ClockSkew",
        panel=("stores.json", "Clock, ahead of the database's"),
        runbook="timedatectl",
        log="clock skew",
        fields={"ahead_s": "^(59|60|61)"},
        felt="Nothing: rows are dated by the database's clock.",
        ask=ASK,
    ),
]

BROADCAST_FAULTS = [
    Fault(
        name="Redis refused",
        site="fleet",
        inject=refused("broadcast"),
        alert="BroadcastAway",
        panel=DEPENDENCIES,
        runbook="`the broadcast is away`",
        log="the broadcast is away",
        fields={"reason": "Connection"},
        felt="Answers go on; they are seen live only at the instance that runs them.",
        ask=ASK,
    ),
    Fault(
        name="Redis slow",
        site="fleet",
        inject=slow("broadcast", REDIS_LATE_S),
        alert="BroadcastSlow",
        panel=("stores.json", "Redis, p95 by command"),
        runbook="`the broadcast answers late`",
        log="the broadcast answers late",
        fields={"operation": "publish|ping|read", "took_ms": r"\d{3,}"},
        felt="At other instances answers are seen later.",
        ask=ASK,
    ),
]
