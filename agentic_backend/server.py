"""The process: two uvicorn listeners on one application, and the signals that end it.

uvicorn would close every socket the moment a signal comes. So the signals are ours: what runs comes to its end first,
then the listeners go.
"""

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.agents.models import ChatModels
from agentic_backend.app import open_application
from agentic_backend.settings import LimitsSettings, Settings
from agentic_backend.transports.abortable_websocket import AbortableWebSocket

log = logging.getLogger(__name__)

_BACKLOG = 2048
_LAST_WORDS_S = 2


class Listener(uvicorn.Server):
    """A uvicorn server on a socket that is bound already; it leaves the signals alone."""

    def __init__(self, application: ASGIApp, bound: socket.socket, limits: LimitsSettings) -> None:
        super().__init__(
            uvicorn.Config(
                application,
                http="httptools",
                ws=AbortableWebSocket,
                ws_max_size=limits.frame_bytes,
                ws_per_message_deflate=False,
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=_LAST_WORDS_S,
            )
        )
        self._bound = bound

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def listen(self) -> None:
        await self.serve(sockets=[self._bound])

    def close(self) -> None:
        self.should_exit = True


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes any free one. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(_BACKLOG)
        bound.setblocking(False)
    except OSError:
        bound.close()
        raise
    return bound


def address_of(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def serve(settings: Settings, agents: AgentManager, models: ChatModels) -> None:
    """Serve until a signal comes. Raises OSError where an address can't be had, StoreUnavailable without a store."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    with contextlib.ExitStack() as sockets:
        public = sockets.enter_context(bind(settings.server.host, settings.server.port))
        internal_port = settings.server.internal_listener_port
        internal = None
        if internal_port is not None:
            internal = sockets.enter_context(bind(settings.server.internal_host, internal_port))
        async with open_application(settings, agents, models, public.getsockname()[1]) as application:
            listeners = [Listener(application.public, public, settings.limits)]
            if internal is not None:
                listeners.append(Listener(application.internal, internal, settings.limits))
            async with asyncio.TaskGroup() as tasks:
                for listener in listeners:
                    tasks.create_task(listener.listen())
                inside = f", metrics and health at {address_of(internal)}" if internal else ""
                print(f"Chat at {address_of(public)}{inside}", flush=True)
                await stop.wait()
                log.info("stopping")
                await application.relay.aclose()
                for listener in listeners:
                    listener.close()
