"""Faults of the database and the Redis of several instances, and of an instance's clock."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from gameday.fault import Fault
from gameday.site import Site

ASK = ("words 3 0", None)
DEPENDENCIES = ("stores.json", "Dependencies, by instance")
REFUSED_FELT = "Asks are refused with `store_unavailable`; answers that are written wait with their end."


def refused(neighbour: str) -> Callable[[Site], AbstractAsyncContextManager[None]]:
    return lambda site: site.lines[neighbour].refused()


def black_holed(neighbour: str) -> Callable[[Site], AbstractAsyncContextManager[None]]:
    return lambda site: site.lines[neighbour].black_holed()


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
]
