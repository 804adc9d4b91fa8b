"""What the evals are put to: a server of their own within this process, or one that runs elsewhere."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.agents.models.chat_models import ChatModels
from agentic_backend.client import Chat, ChatError, Unreachable, connect
from agentic_backend.client.tokens import token_of_environment
from agentic_backend.config.settings import (
    AuthSettings,
    BroadcastSettings,
    DataSettings,
    ServerSettings,
    Settings,
    StoreSettings,
)
from agentic_backend.config.topics.observability import TracingSettings
from agentic_backend.config.topics.sessions import TitlesSettings
from agentic_backend.relay.drain import Drain
from agentic_backend.server.process import running

_PATIENCE_S = 20


@asynccontextmanager
async def own_server(settings: Settings, agents: AgentManager, models: ChatModels) -> AsyncIterator[Chat]:
    """A client of a whole server on loopback, whose database is empty and removed at the end."""
    drain = Drain()
    with TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        async with running(_for_evals(settings, Path(directory)), agents, models, drain=drain) as addresses:
            try:
                async with connect(addresses.public) as chat:
                    yield chat
            finally:
                drain.cut_short.set()


@asynccontextmanager
async def running_server(url: str) -> AsyncIterator[Chat]:
    """A client of the server at `url`. Raises ChatError if it can't connect, or if `url` is none."""
    async with AsyncExitStack() as stack:
        connecting = connect(url, token=token_of_environment(), patience_s=_PATIENCE_S)
        try:
            chat = await stack.enter_async_context(connecting)
        except ValueError as error:
            raise ChatError(f"--url: {error}") from error
        except Unreachable as error:
            raise Unreachable(f"{url}: {error}") from error
        yield chat


def _for_evals(settings: Settings, directory: Path) -> Settings:
    """The settings with which nothing is heard, stored, sent or limited that is not the evals' own."""
    unlimited = {"running_per_user": None, "waiting_per_user": None, "asks_per_minute": None, "sockets_per_user": None}
    return settings.model_copy(
        update={
            "server": ServerSettings(port=0, internal_port=0, grace_s=0),
            "auth": AuthSettings(developer=settings.auth.developer),
            "data": DataSettings(directory=directory),
            "store": StoreSettings(timeout_s=settings.store.timeout_s),
            "broadcast": BroadcastSettings(),
            "limits": settings.limits.model_copy(update=unlimited),
            "titles": TitlesSettings(enabled=False),
            "tracing": TracingSettings(),
        }
    )
