"""The process: two uvicorn listeners on one application, from its start to its end.

uvicorn would close every socket the moment a signal comes. So the signals are ours (see process_end): the public
listener takes no more connections, idle sockets are sent away, what runs comes to its end, then the listeners go.
"""

import asyncio
import contextlib
import logging
import math
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import uvicorn
import uvloop
from starlette.types import ASGIApp

from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.agents.models import ChatModels
from agentic_backend.app import open_application
from agentic_backend.descriptors import raise_descriptor_limit, reserved_descriptors
from agentic_backend.experts.sentinel.operations import OPERATIONS, operations_settings
from agentic_backend.limits_settings import LimitsSettings
from agentic_backend.process_end import StopOrder, end_in_time, leave_now
from agentic_backend.sessions.departure import LONGEST_S, Departure
from agentic_backend.settings import Settings
from agentic_backend.stores.opening import sqlite_file
from agentic_backend.stores.private_files import private_directory
from agentic_backend.stores.sole_use import sole_use
from agentic_backend.transports.abortable_websocket import AbortableWebSocket
from agentic_backend.transports.accepted_connections import AcceptedConnections
from agentic_backend.transports.bounded_http import BoundedHttp
from agentic_backend.transports.message_pace import LargeMessages

log = logging.getLogger(__name__)

_BACKLOG = 2048
# After a send that waits has been given up, which the log tells of.
_UNREAD_AFTER_S = 2
# How long the wait for sockets goes on while none closes, of the two seconds that are left after the grace period.
_CLOSING_S = 0.3
_THREADS = "blocking"


class Listener(uvicorn.Server):
    """A uvicorn server on a socket that is bound already; it leaves the signals alone."""

    def __init__(
        self,
        application: ASGIApp,
        bound: socket.socket,
        limits: LimitsSettings,
        *,
        reserve_from: int | None = None,
        dropped: Callable[[str], None] = lambda reason: None,
    ) -> None:
        """`reserve_from` and `dropped` are those of AcceptedConnections."""
        accepted = AcceptedConnections(
            silent_at_most=limits.unauthenticated_sockets, reserve_from=reserve_from, dropped=dropped
        )
        # uvicorn only calls it.
        protocol: Any = partial(BoundedHttp, accepted=accepted, large_messages=LargeMessages())
        super().__init__(
            uvicorn.Config(
                application,
                http=protocol,
                ws=AbortableWebSocket,
                ws_max_size=limits.frame_bytes,
                ws_per_message_deflate=False,
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                # Whoever closes it says when that has taken long enough.
                timeout_graceful_shutdown=math.ceil(LONGEST_S),
            )
        )
        self._bound = bound
        # Linux has this, and every connection inherits it. What fits into the kernel's buffers keeps no send waiting: a
        # client that leaves little unread, or has gone without a word, would be there until its pongs are missed.
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            unread_ms = round((limits.send_timeout_s + _UNREAD_AFTER_S) * 1000)
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, unread_ms)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    @property
    def open_count(self) -> int:
        """How many connections are open."""
        return len(self.server_state.connections)

    async def listen(self) -> None:
        await self.serve(sockets=[self._bound])

    def refuse(self) -> None:
        """Accept no more connections; those that are open stay so.

        A proxy, and a client, then go to another server at once. Where workers share the port, they take what comes.
        """
        if self.started:
            for server in self.servers:
                server.close()

    def close(self) -> None:
        self.should_exit = True


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes any free one. Raises OSError, which names the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(_BACKLOG)
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from None
    return bound


def address_of(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the listeners listen, as `http://host:port`; `internal` is None where it is off."""

    public: str
    internal: str | None


@contextlib.asynccontextmanager
async def running(
    settings: Settings,
    agents: AgentManager,
    models: ChatModels,
    bound: socket.socket | None = None,
    departure: Departure | None = None,
) -> AsyncIterator[Addresses]:
    """A running server; leaving it lets what runs come to its end, unless `departure` is cut short.

    `bound` is the socket of the public listener, where others listen on it too.
    Raises OSError where an address can't be had, CannotOpenStore, and StoreUnavailable where it fails right after.
    """
    departure = departure or Departure()
    async with contextlib.AsyncExitStack() as stack:
        public = stack.enter_context(bound or bind(settings.server.host, settings.server.port))
        internal_port = settings.server.internal_listener_port
        internal = None
        if internal_port is not None:
            internal = stack.enter_context(bind(settings.server.internal_host, internal_port))
        addresses = Addresses(address_of(public), address_of(internal) if internal else None)
        servers = {OPERATIONS: operations_settings(addresses.internal)} | settings.mcp_servers
        settings = settings.model_copy(update={"mcp_servers": servers})
        application = await stack.enter_async_context(
            open_application(settings, agents, models, public.getsockname()[1], departure)
        )
        listening_to = partial(Listener, limits=settings.limits, dropped=application.kpi.connection_dropped)
        # Health and metrics answer out of the reserve.
        listeners = [listening_to(application.public, public, reserve_from=reserved_descriptors())]
        if internal is not None:
            listeners.append(listening_to(application.internal, internal))
        async with asyncio.TaskGroup() as tasks:
            listening = [tasks.create_task(listener.listen()) for listener in listeners]
            try:
                yield addresses
            finally:
                listeners[0].refuse()
                # While exchanges come to their end, their clients still see it.
                await application.relay.aclose()
                for listener in listeners:
                    listener.close()
                # Where an exception leaves, the group would cancel them before their sockets are closed.
                await departure.wait(lambda: sum(listener.open_count for listener in listeners), _CLOSING_S)
                for listener in listeners:
                    # A client that doesn't read keeps its socket from closing.
                    listener.force_exit = True
                await asyncio.wait(listening)


def run(settings: Settings, agents: AgentManager, models: ChatModels, bound: socket.socket | None = None) -> None:
    """Serve on an event loop of its own until it is told to stop; on `bound`, where others listen on it too.

    Raises what `running` raises, and OSError where the directory of the SQLite file can't be had for this server alone.
    """
    raise_descriptor_limit()
    with _alone(settings), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        loop = runner.get_loop()
        serving = loop.create_task(serve(settings, agents, models, bound))
        while not serving.done():
            # asyncio stops its loop where the code of an agent calls sys.exit(); everybody else's exchanges go on.
            with contextlib.suppress(SystemExit):
                loop.run_until_complete(serving)
        serving.result()


def _alone(settings: Settings) -> contextlib.AbstractContextManager[None]:
    """Whoever serves from a SQLite file is the only one in its directory, which is made. Raises OSError."""
    file = sqlite_file(settings.store.url, settings.data.directory)
    if file is None:
        return contextlib.nullcontext()
    if file.parent == settings.data.directory or not file.parent.exists():
        # Another directory may hold what others have to read.
        private_directory(file.parent)
    return sole_use(file.parent)


async def serve(
    settings: Settings, agents: AgentManager, models: ChatModels, bound: socket.socket | None = None
) -> None:
    """Serve until a signal says to stop. Raises what `running` raises."""
    loop, departure = asyncio.get_running_loop(), Departure()
    order = StopOrder(departure)
    order.listen(loop)
    # Blocking code of agents runs in threads; on a machine of two cores asyncio has six of them for all exchanges.
    threads = ThreadPoolExecutor(settings.limits.max_running, thread_name_prefix=_THREADS)
    loop.set_default_executor(threads)
    async with running(settings, agents, models, bound, departure) as addresses:
        inside = f", metrics and health at {addresses.internal}" if addresses.internal else ""
        # In one write: the lines of several workers would run into each other.
        print(f"Chat at {addresses.public}{inside}\n", end="", flush=True)
        await order.stop.wait()
        log.info("stopping")
        end_in_time(settings.server.grace_s, departure)
    threads.shutdown(wait=False, cancel_futures=True)
    await _end_without_stragglers()


async def _end_without_stragglers() -> None:
    """End the process here where code of an agent still runs: Python itself would wait for it, however long."""
    for _ in range(10):
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        threads = [thread for thread in threading.enumerate() if thread.name.startswith(_THREADS)]
        if not tasks and not threads:
            return
        for task in tasks:
            task.cancel()
        await asyncio.sleep(0.05)
    log.warning("agents still at work are left behind", extra={"tasks": len(tasks), "threads": len(threads)})
    leave_now()
