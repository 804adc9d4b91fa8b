"""Faults of the database and the Redis of several instances, and of an instance's clock."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from gameday.fault import Fault
from gameday.site import Site
from redis.asyncio import Redis
from support.refusing_mongodb import SignInLine

# More than the alerts call slow, and less than the server gives up.
STORE_LATE_S, REDIS_LATE_S = 0.3, 0.3
AHEAD_S = 60.0
ASK = ("words 3 0", None)
DEPENDENCIES = ("stores.json", "Dependencies, by instance")
AWAY_FOR = ("stores.json", "Why a dependency is away")
LIVE_ELSEWHERE_FELT = "Answers go on; they are seen live only at the instance that runs them."
REFUSED_FELT = "Asks are refused with `store_unavailable`; answers that are written wait with their end."


def refused(neighbour: str) -> Callable[[Site], AbstractAsyncContextManager[None]]:
    return lambda site: site.lines[neighbour].refused()


def black_holed(neighbour: str) -> Callable[[Site], AbstractAsyncContextManager[None]]:
    return lambda site: site.lines[neighbour].black_holed()


def slow(neighbour: str, late_s: float) -> Callable[[Site], AbstractAsyncContextManager[None]]:
    return lambda site: site.lines[neighbour].slow(late_s)


def redis_told(*fault: str, end: Sequence[str]) -> Callable[[Site], AbstractAsyncContextManager[None]]:
    """A Redis that is told one command for the fault, and another one to end it."""

    @asynccontextmanager
    async def told(site: Site) -> AsyncIterator[None]:
        async with Redis(port=site.lines["broadcast"].target) as client:
            await client.execute_command(*fault)
            try:
                yield
            finally:
                await client.execute_command(*end)

    return told


@asynccontextmanager
async def password_changed(site: Site) -> AsyncIterator[None]:
    """Connections outlive it, so they end once."""
    async with Redis(port=site.lines["broadcast"].target) as client:
        await client.config_set("requirepass", "changed")
        await client.client_kill_filter(_type="normal", skipme=True)
        await client.client_kill_filter(_type="pubsub", skipme=True)
        try:
            yield
        finally:
            await client.config_set("requirepass", "")


@asynccontextmanager
async def store_password_changed(site: Site) -> AsyncIterator[None]:
    line = site.lines["store"]
    assert isinstance(line, SignInLine)
    async with line.another_password():
        yield


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
        fields={"reason": "unreachable"},
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
        fields={"reason": "no_answer"},
        felt=REFUSED_FELT,
        ask=ASK,
        outcome="store_unavailable",
        ready="store_unavailable",
    ),
    Fault(
        name="MongoDB with another password",
        site="fleet",
        inject=store_password_changed,
        alert="StoreAway",
        panel=AWAY_FOR,
        runbook="the password was changed",
        log="MongoDB failed",
        fields={"reason": "refused_credentials", "error": "OperationFailure", "mongodb_code": "^18$"},
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
        fields={"reason": "unreachable"},
        felt=LIVE_ELSEWHERE_FELT,
        ask=ASK,
    ),
    Fault(
        name="Redis read-only",
        site="fleet",
        inject=redis_told("REPLICAOF", "127.0.0.1", "1", end=("REPLICAOF", "NO", "ONE")),
        alert="BroadcastAway",
        panel=AWAY_FOR,
        runbook="a replica, mostly after a failover",
        log="the broadcast is away",
        fields={"reason": "read_only"},
        felt=LIVE_ELSEWHERE_FELT,
        ask=ASK,
    ),
    Fault(
        name="Redis full",
        site="fleet",
        inject=redis_told("CONFIG", "SET", "maxmemory", "1mb", end=("CONFIG", "SET", "maxmemory", "0")),
        alert="BroadcastAway",
        panel=AWAY_FOR,
        runbook="maxmemory-policy noeviction",
        log="the broadcast is away",
        fields={"reason": "full"},
        felt=LIVE_ELSEWHERE_FELT,
        ask=ASK,
    ),
    Fault(
        name="Redis with another password",
        site="fleet",
        inject=password_changed,
        alert="BroadcastAway",
        panel=AWAY_FOR,
        runbook="the password was changed",
        log="the broadcast is away",
        fields={"reason": "refused_credentials"},
        felt=LIVE_ELSEWHERE_FELT,
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
        fields={"operation": "publish|heartbeat|read", "took_ms": r"\d{3,}"},
        felt="At other instances answers are seen later.",
        ask=ASK,
    ),
]
