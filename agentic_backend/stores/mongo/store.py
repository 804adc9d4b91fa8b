"""The Store on MongoDB: for data that outlives its machine.

The composition root opens it, and closes it with `aclose`. It needs no transactions, so a single server or FerretDB is
enough: a compare-and-set on one document takes the place of a transaction (see exchanges, batches and claims).
"""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, Self

from agentic_backend.protocol.messages import utc_now
from agentic_backend.stores.mongo.agent_versions import AgentVersions
from agentic_backend.stores.mongo.applications.application_records import ApplicationRecords
from agentic_backend.stores.mongo.attachments import Attachments
from agentic_backend.stores.mongo.chores import Chores
from agentic_backend.stores.mongo.copies import Copies
from agentic_backend.stores.mongo.driver import Clock, Driver, MongoDriver, blocking_client
from agentic_backend.stores.mongo.instances import Connect, Instances
from agentic_backend.stores.mongo.items import Items
from agentic_backend.stores.mongo.kpis import Kpis
from agentic_backend.stores.mongo.schema import Schema, open_schema
from agentic_backend.stores.mongo.sessions.branches import Branches
from agentic_backend.stores.mongo.sessions.claims import Claims
from agentic_backend.stores.mongo.sessions.exchange_pages import ExchangePages
from agentic_backend.stores.mongo.sessions.exchanges import Exchanges
from agentic_backend.stores.mongo.sessions.finishing import Finishing
from agentic_backend.stores.mongo.sessions.messages import Messages
from agentic_backend.stores.mongo.sessions.partials import Partials
from agentic_backend.stores.mongo.sessions.session_search import SessionSearches
from agentic_backend.stores.mongo.sessions.sessions import Sessions, finish_deletions
from agentic_backend.stores.mongo.sessions.settling import HalfBegun
from agentic_backend.stores.mongo.sessions.trail import Trail
from agentic_backend.stores.mongo.usage import Usage
from agentic_backend.stores.mongo.users import Users
from agentic_backend.stores.observing import Observer


class MongoStore(
    Sessions,
    Branches,
    SessionSearches,
    Exchanges,
    ExchangePages,
    Claims,
    Partials,
    Messages,
    Items,
    ApplicationRecords,
    Attachments,
    Kpis,
    Trail,
    Usage,
    Users,
    AgentVersions,
    Chores,
    Instances,
    Schema,
    Copies,
):
    """Implements `Store`, and `Target` of a transfer; these document the methods of its parts."""

    def __init__(self, driver: MongoDriver, clock: Clock, half_begun: HalfBegun, connect: Connect) -> None:
        super().__init__(driver, clock)
        self.half_begun = half_begun
        self.finishing = Finishing(driver)
        self.connect = connect

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        driver: Driver = "pymongo",
        timeout_s: float,
        observe: Observer | None = None,
        wall: Callable[[], datetime] = utc_now,
        **options: Any,
    ) -> Self:
        """Open the database that `url` names, `agentic` by default; `upgrade` brings it up to date.

        Every operation has `timeout_s`; `options` go to the driver's client. `wall` is the machine's clock. Raises
        StoreUnavailable, and SchemaTooNew if the database needs a newer server.
        """
        clock = Clock(wall)
        opened = await MongoDriver.open(url, driver=driver, timeout_s=timeout_s, observe=observe, **options)
        try:
            await opened.run("open", open_schema)
            await opened.run("open", finish_deletions)
            await opened.run("open", lambda _: opened.compare_clocks(clock))
        except BaseException:
            await opened.aclose()
            raise
        # A session is read before its exchange begins: two operations.
        return cls(opened, clock, HalfBegun(2 * timeout_s), partial(blocking_client, url))

    async def aclose(self) -> None:
        await self.finishing.aclose()
        await self.driver.aclose()
