"""The Store on SQLite: one file, for a server on one machine, whose workers may share it.

The composition root opens it, and closes it with `aclose`. One connection writes, one transaction per write. Others
read, so that a read waits for neither a write nor a list, and a list for neither a search nor a report. Transactions
make batches atomic. If the process dies, no write that was reported as saved is lost; if the machine loses power, the
last moments may be.
"""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from datetime import datetime
from pathlib import Path
from typing import Self

from agentic_backend.errors import AgenticError, StoreUnavailable
from agentic_backend.protocol.messages import utc_now
from agentic_backend.stores.base import took_too_long
from agentic_backend.stores.observing import Observer, ignore
from agentic_backend.stores.private_files import private_database
from agentic_backend.stores.schema import Upgraded
from agentic_backend.stores.sqlite.agent_versions import AgentVersions
from agentic_backend.stores.sqlite.applications.application_records import ApplicationRecords
from agentic_backend.stores.sqlite.attachment_files import AttachmentFiles
from agentic_backend.stores.sqlite.attachments import Attachments
from agentic_backend.stores.sqlite.chores import Chores
from agentic_backend.stores.sqlite.connection import SqliteConnection
from agentic_backend.stores.sqlite.copies import Copies
from agentic_backend.stores.sqlite.instances import Instances, create_shared_tables
from agentic_backend.stores.sqlite.items import Items
from agentic_backend.stores.sqlite.kpis import Kpis
from agentic_backend.stores.sqlite.migrations import migrate
from agentic_backend.stores.sqlite.sessions.branches import Branches
from agentic_backend.stores.sqlite.sessions.claims import Claims
from agentic_backend.stores.sqlite.sessions.exchange_pages import ExchangePages
from agentic_backend.stores.sqlite.sessions.exchanges import Exchanges
from agentic_backend.stores.sqlite.sessions.messages import Messages
from agentic_backend.stores.sqlite.sessions.partials import Partials
from agentic_backend.stores.sqlite.sessions.session_search import SessionSearches
from agentic_backend.stores.sqlite.sessions.sessions import Sessions
from agentic_backend.stores.sqlite.sessions.trail import Trail
from agentic_backend.stores.sqlite.usage import Usage
from agentic_backend.stores.sqlite.users import Users


class SqliteStore(
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
    Copies,
    Instances,
):
    """Implements `Store`, and `Source` of a transfer; these document the methods of its parts."""

    def __init__(
        self,
        files: AttachmentFiles,
        closing: AsyncExitStack,
        wall: Callable[[], datetime],
        shared_file: Path | None,
        *connections: SqliteConnection,
    ) -> None:
        """`closing` closes the connections."""
        super().__init__(wall, *connections)
        self.shared_file = shared_file
        self.files = files
        self._closing = closing

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        timeout_s: float,
        shared: bool = False,
        observe: Observer | None = None,
        suspect: Callable[[], None] = ignore,
        wall: Callable[[], datetime] = utc_now,
    ) -> Self:
        """Open or create the file at `path`, and bring its schema up to date; `shared` with other processes.

        Every operation has `timeout_s`; rows get the time of `wall`; a damaged page calls `suspect`. Raises
        StoreUnavailable, and SchemaTooNew if a newer server wrote the file.
        """
        # If the file can't be used, opening it reports the reason.
        with suppress(OSError):
            await asyncio.to_thread(private_database, path)
        async with AsyncExitStack() as opened:

            async def connect(late: Callable[[], AgenticError] = StoreUnavailable) -> SqliteConnection:
                connection = await SqliteConnection.open(
                    path, timeout_s=timeout_s, observe=observe, suspect=suspect, late=late
                )
                opened.push_async_callback(connection.aclose)
                return connection

            writer = await connect()
            await migrate(writer)
            if shared:
                await writer.write("migrate", create_shared_tables)
            readers = [await connect(), await connect(), await connect(took_too_long), await connect(took_too_long)]
            return cls(AttachmentFiles(path), opened.pop_all(), wall, path if shared else None, writer, *readers)

    async def aclose(self) -> None:
        await self._closing.aclose()

    # Opening the file has migrated it.

    async def upgrades_left(self) -> int:
        return 0

    async def upgrade(self) -> Upgraded:
        return Upgraded(None, 0, 0)
