"""The process: two uvicorn listeners for one application, from start to end.

uvicorn would close every socket at once on a signal. So the process handles the signals itself (see process_end): the
public listener stops accepting, idle clients are sent elsewhere, running exchanges end, then the listeners close.
"""

import asyncio
import contextlib
import logging
import math
import platform
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

import uvicorn
import uvloop
from starlette.types import ASGIApp

from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.agents.models.chat_models import ChatModels
from agentic_backend.agents.run.blocking_threads import busy_threads
from agentic_backend.app import App, open_app
from agentic_backend.config.settings import Settings
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.experts.sentinel.operations import OPERATIONS, operations_settings
from agentic_backend.hosting.loading import NO_APPLICATIONS, Applications
from agentic_backend.relay.drain import LONGEST_S, Drain
from agentic_backend.relay.zmq.peers import Peers
from agentic_backend.server.input.abortable_websocket import AbortableWebSocket
from agentic_backend.server.input.accepted_connections import (
    AcceptedConnections,
    raise_descriptor_limit,
    reserved_descriptors,
)
from agentic_backend.server.input.bounded_http import BoundedHttp
from agentic_backend.server.input.message_pace import LargeMessages
from agentic_backend.server.internal_listener import InternalListener
from agentic_backend.server.limit_watch import watched_limits
from agentic_backend.server.memory import give_back_large_blocks
from agentic_backend.server.process_end import StopOrder, end_in_time, leave_now
from agentic_backend.server.reload.reloads import Reloads
from agentic_backend.server.service_notify import Supervisor, told_alive
from agentic_backend.stores.opening import sqlite_file
from agentic_backend.stores.private_files import private_directory, sole_use

log = logging.getLogger(__name__)

_BACKLOG = 2048
# Added to the send timeout for the kernel's timeout for unread data, so that the send times out first and is logged.
_UNREAD_AFTER_S = 2
# The longest wait for the next socket to close, out of the two seconds after the grace period.
_CLOSING_S = 0.3
# The prefix of the names of the threads for blocking code.
_THREADS = "blocking"
_LOOPBACK = "127.0.0.1"
# How long the busy event loop may keep Python's lock from a thread that wants it, in seconds. SQLite's thread gives the
# lock back at each statement; with Python's 5 ms, an exchange that starts waits for it for longer than for its model.
_LOCK_S = 0.0001


# What the log tells of a server that has started: what runs, on what, and within which limits.

_MOST_AGENTS = 50
_TOLD = {
    "max_running",
    "running_per_user",
    "asks_per_minute",
    "max_sockets",
    "sockets_per_user",
    "message_bytes",
    "frame_bytes",
    "run_timeout_s",
    "model_timeout_s",
    "tool_timeout_s",
}


def start_facts(settings: Settings, agents: AgentManager) -> dict[str, Any]:
    """The fields of the line. Of URLs they have the scheme only: user, host and query may be secrets."""
    ids = [agent.settings.id for agent in agents.served()]
    return {
        "version": version("agentic-backend"),
        "python": platform.python_version(),
        "store": urlsplit(settings.store.url or "sqlite:").scheme,
        "broadcast": settings.broadcast.url and urlsplit(settings.broadcast.url).scheme,
        "auth": settings.auth.mode,
        "workers": settings.server.workers,
        "agents": ids[:_MOST_AGENTS],
        "agents_refused": len(agents.problems),
        "models": {name: model.model for name, model in settings.models.items()},
        "mcp_servers": sorted(settings.mcp_servers),
        "limits": settings.limits.model_dump(mode="json", include=_TOLD),
    }


class Listener(uvicorn.Server):
    """A uvicorn server on a bound socket; it does not handle signals."""

    def __init__(
        self,
        application: ASGIApp,
        bound: socket.socket,
        limits: LimitsSettings,
        *,
        reserve_from: int | None = None,
        dropped: Callable[[str], None] = lambda reason: None,
    ) -> None:
        """`reserve_from` and `dropped`: see AcceptedConnections."""
        accepted = AcceptedConnections(
            silent_at_most=limits.unauthenticated_sockets, reserve_from=reserve_from, dropped=dropped
        )
        # Any: uvicorn expects a class but only calls it.
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
                # `running` sets `force_exit` when closing takes too long.
                timeout_graceful_shutdown=math.ceil(LONGEST_S),
            )
        )
        self._bound = bound
        self._wake: Callable[[], object] | None = None
        """Wakes `main_loop`, in the event loop that listens; None before that."""
        # On Linux; connections inherit this option. Data that fits into the kernel's buffers never blocks a send, so
        # without the option a client that reads too little, or has vanished, would stay until its pongs are missed.
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            unread_ms = round((limits.send_timeout_s + _UNREAD_AFTER_S) * 1000)
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, unread_ms)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # StopOrder handles the signals.
        yield

    @property
    def open_count(self) -> int:
        """The number of open connections."""
        return len(self.server_state.connections)

    async def listen(self) -> None:
        """Serve until `close`."""
        await self.serve(sockets=[self._bound])

    async def main_loop(self) -> None:
        """Wait for `close`, and set the date of answers each second; uvicorn's own looks ten times a second."""
        closing = asyncio.Event()
        self._wake = partial(asyncio.get_running_loop().call_soon_threadsafe, closing.set)
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await closing.wait()

    def refuse(self) -> None:
        """Stop accepting connections; open ones stay open.

        Proxies and clients then go to another server at once. Workers on the same port take new connections.
        """
        if self.started:
            for server in self.servers:
                server.close()

    def close(self) -> None:
        """Start to close every connection; `listen` returns when all are closed. From any thread."""
        self.should_exit = True
        # The loop of another thread may have been closed meanwhile.
        with contextlib.suppress(RuntimeError):
            if wake := self._wake:
                wake()

    def force_close(self) -> None:
        """Drop what is still open."""
        self.force_exit = True


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes any free port. Raises OSError with the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named: asyncio sets TCP_NODELAY only then, else short answers wait for the peer's delayed ACK.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
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
class Joint:
    """The internal listener that asks all workers. `tell_port` tells it where to find this one, on loopback."""

    address: str
    tell_port: Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Addresses:
    """The listeners' addresses as `http://host:port`; `internal` is None if that listener is off."""

    public: str
    internal: str | None


@contextlib.asynccontextmanager
async def running(
    settings: Settings,
    agents: AgentManager,
    models: ChatModels,
    bound: socket.socket | None = None,
    drain: Drain | None = None,
    reloads: Reloads | None = None,
    joint: Joint | None = None,
    peers: Peers | None = None,
    threads: ThreadPoolExecutor | None = None,
    applications: Applications = NO_APPLICATIONS,
) -> AsyncIterator[Addresses]:
    """Run the server while the context is open; leaving it waits for running exchanges, unless `drain` is cut short.

    `bound` is the public listener's socket if it is shared with other workers; `joint` is their internal listener, if
    they have one, and `peers` is where they hear each other, if they need that. `threads` are those for blocking code,
    if the loop has its own. Raises OSError if an address can't be bound, CannotOpenStore, and StoreUnavailable if the
    store fails right after it is opened.
    """
    drain = drain or Drain()
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(watched_limits(threads, settings.limits.max_running))
        public = stack.enter_context(bound or bind(settings.server.host, settings.server.port))
        internal_port = settings.server.internal_listener_port
        internal = None
        if joint is not None:
            internal = stack.enter_context(bind(_LOOPBACK, 0))
        elif internal_port is not None:
            internal = stack.enter_context(bind(settings.server.internal_host, internal_port))
        address = joint.address if joint is not None else address_of(internal) if internal else None
        addresses = Addresses(address_of(public), address)
        servers = {OPERATIONS: operations_settings(addresses.internal)} | settings.mcp_servers
        settings = settings.model_copy(update={"mcp_servers": servers})
        port = public.getsockname()[1]
        app = await stack.enter_async_context(open_app(settings, agents, models, port, drain, peers, applications))
        if threads is not None:
            held, waiting = partial(busy_threads, threads), threads._work_queue.qsize
            app.kpi.process.blocking(settings.limits.max_running, held, waiting)
        listening_to = partial(Listener, limits=settings.limits, dropped=app.kpi.connections.dropped)
        # Only the public listener: health and metrics may use the reserved descriptors.
        listener = listening_to(app.public, public, reserve_from=reserved_descriptors())
        inside = None if internal is None else InternalListener(listening_to(app.internal, internal))
        async with asyncio.TaskGroup() as tasks:
            listening = tasks.create_task(listener.listen())
            reloading = None if reloads is None else tasks.create_task(reloads.run(app))
            if inside is not None:
                inside.start()
                if joint is not None and internal is not None:
                    joint.tell_port(internal.getsockname()[1])
            try:
                yield addresses
            finally:
                await _end_in_order(app, drain, listener, inside, listening, reloading)


async def _end_in_order(
    app: App,
    drain: Drain,
    listener: Listener,
    inside: InternalListener | None,
    listening: asyncio.Task[None],
    reloading: asyncio.Task[None] | None,
) -> None:
    """`listener` serves in the task `listening`, `inside` in one of its own."""
    listeners: list[Listener | InternalListener] = [listener] if inside is None else [listener, inside]
    # 1. The public listener stops accepting: proxies and clients go to another server at once. The
    #    internal listener stays open, so that probes and scrapers see the server end.
    listener.refuse()
    # 2. Exchanges end within the grace period while sockets are still open: clients see the ends, and each
    #    client is sent elsewhere as soon as it follows nothing here.
    await app.relay.aclose()
    if reloading is not None:
        reloading.cancel()
    # 3. Both listeners start to close the open connections.
    for each in listeners:
        each.close()
    # 4. Clients get a moment to answer the close. Wait here, because on an exception the task group cancels
    #    the listeners before their sockets are closed.
    await drain.wait(lambda: sum(each.open_count for each in listeners), _CLOSING_S)
    # 5. Drop the remaining sockets: if a client doesn't read, its socket never closes.
    for each in listeners:
        each.force_close()
    # 6. The listeners end. Then the stack closes the app, and finally the bound sockets.
    await asyncio.wait({listening})
    if inside is not None:
        await inside.ended()


def run(
    settings: Settings,
    agents: AgentManager,
    models: ChatModels,
    supervisor: Supervisor,
    reloads: Reloads,
    bound: socket.socket | None = None,
    joint: Joint | None = None,
    peers: Peers | None = None,
) -> None:
    """Serve on a new event loop until a stop signal; see `running` for `bound`, `joint` and `peers`.

    Raises what `running` raises, and OSError if another server uses the directory of the SQLite file.
    """
    raise_descriptor_limit()
    sys.setswitchinterval(_LOCK_S)
    give_back_large_blocks()
    # A worker's parent holds it for all of them.
    alone = sole_server(settings) if bound is None else contextlib.nullcontext()
    with alone, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        loop = runner.get_loop()
        serving = loop.create_task(serve(settings, agents, models, supervisor, reloads, bound, joint, peers))
        while not serving.done():
            # If an agent's code raises one of these, asyncio stops the loop; run it again for the other exchanges.
            try:
                loop.run_until_complete(serving)
            except SystemExit:
                pass
            except KeyboardInterrupt:
                # Before the server listens to signals, it is a person's Ctrl-C.
                if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                    raise
        serving.result()


def sole_server(settings: Settings) -> contextlib.AbstractContextManager[None]:
    """Hold the directory of a SQLite file for this server alone, and create it if needed. Raises OSError."""
    file = sqlite_file(settings.store.url, settings.data.directory)
    if file is None:
        return contextlib.nullcontext()
    if file.parent == settings.data.directory or not file.parent.exists():
        # Other users may have to read files in another, existing directory.
        private_directory(file.parent)
    return sole_use(file.parent)


async def serve(
    settings: Settings,
    agents: AgentManager,
    models: ChatModels,
    supervisor: Supervisor,
    reloads: Reloads,
    bound: socket.socket | None = None,
    joint: Joint | None = None,
    peers: Peers | None = None,
) -> None:
    """Serve until a stop signal. Raises what `running` raises."""
    loop, drain = asyncio.get_running_loop(), Drain()
    # From here a signal stops the server in order; before, it ends the process at once.
    order = StopOrder(drain)
    order.listen(loop)
    # Agents' blocking code runs in threads. With two cores, asyncio's default is six threads for all exchanges.
    threads = ThreadPoolExecutor(settings.limits.max_running, thread_name_prefix=_THREADS)
    loop.set_default_executor(threads)
    running_here = running(settings, agents, models, bound, drain, reloads, joint, peers, threads, reloads.applications)
    async with told_alive(supervisor), running_here as addresses:
        inside = f", metrics and health at {addresses.internal}" if addresses.internal else ""
        # One write, so that the lines of several workers don't mix. The disk behind it may be full.
        with contextlib.suppress(OSError):
            print(f"Chat at {addresses.public}{inside}\n", end="", flush=True)
        log.info("server started", extra=start_facts(settings, agents))
        supervisor.ready()
        await order.stop.wait()
        supervisor.stopping()
        log.info("server stopping")
        # A thread enforces the end, because the event loop may be too busy.
        end_in_time(settings.server.grace_s, drain)
    # Leaving `running` has ended exchanges and closed sockets and store. Queued blocking code never starts; code that
    # already runs in a thread can't be cancelled, and is not awaited.
    threads.shutdown(wait=False, cancel_futures=True)
    # Remaining tasks of agents are cancelled; if they don't end, the process exits without them.
    await _end_without_stragglers()


async def _end_without_stragglers() -> None:
    """Cancel the remaining tasks of agents. If code still runs, end the process, because Python would wait for it."""
    for _ in range(10):
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        threads = [thread for thread in threading.enumerate() if thread.name.startswith(_THREADS)]
        if not tasks and not threads:
            return
        for task in tasks:
            task.cancel()
        await asyncio.sleep(0.05)
    log.warning("process exits while agents still run", extra={"tasks": len(tasks), "threads": len(threads)})
    leave_now()
