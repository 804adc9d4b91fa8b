"""The composition root: settings in, a wired application out. The one place where parts meet, and their lifespan."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.routing import Route

from agentic_backend.agents.agent_factory import AgentFactory
from agentic_backend.agents.agent_flow import AgentServices
from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.agents.models import ChatModels
from agentic_backend.auth.developer import DeveloperAuthenticator
from agentic_backend.auth.user import Authenticator
from agentic_backend.broadcast.base import Alone, Broadcast
from agentic_backend.event_loop_lag import event_loop_lag
from agentic_backend.kpi import Kpi
from agentic_backend.log_tail import LogTail
from agentic_backend.sessions.instance import Instance
from agentic_backend.sessions.relay import Relay
from agentic_backend.sessions.session_services import SessionServices, open_sessions, wire_sessions
from agentic_backend.settings import AuthSettings, LimitsSettings, RelaySettings, Settings
from agentic_backend.stores.base import Store
from agentic_backend.stores.opening import open_store, sqlite_file
from agentic_backend.transports.chatbot_controller import ChatbotController
from agentic_backend.transports.classic_api import ClassicApi
from agentic_backend.transports.exchanges_api import ExchangesApi
from agentic_backend.transports.metrics_api import MetricsApi
from agentic_backend.transports.open_connections import OpenConnections
from agentic_backend.transports.probes import internal_application
from agentic_backend.transports.public_application import public_application
from agentic_backend.transports.rest import RestApi
from agentic_backend.transports.sign_in import SignIn

_LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class Application:
    """`public` and `internal` are what the two listeners serve; `relay` holds what runs."""

    public: Starlette
    internal: Starlette
    relay: Relay


@asynccontextmanager
async def open_application(
    settings: Settings, agents: AgentManager, models: ChatModels, port: int
) -> AsyncIterator[Application]:
    """Everything wired and open, for a public listener on `port`; leaving it lets running exchanges end first.

    Raises CannotOpenStore, and StoreUnavailable where it fails right after.
    """
    kpi, log_tail = Kpi(), LogTail(settings.log.packages)
    async with AsyncExitStack() as stack:
        stack.enter_context(log_tail.attached())
        await stack.enter_async_context(event_loop_lag(kpi))
        store = await open_store(settings, kpi.store_operation)
        stack.push_async_callback(store.aclose)
        authenticator = await stack.enter_async_context(_authenticator(settings.auth, kpi))
        factory = _factory(settings, models, authenticator, kpi)
        stack.push_async_callback(factory.aclose)
        instance = Instance(settings.relay.lease_s)
        broadcast = await stack.enter_async_context(_broadcast(settings.relay, instance.id, kpi))
        relay = _relay(settings, broadcast)
        stack.push_async_callback(relay.aclose)
        sessions = wire_sessions(
            instance,
            store,
            relay,
            agents=agents,
            factory=factory,
            models=models,
            kpi=kpi,
            limits=settings.limits,
        )
        # A SQLite file is one instance's alone; what runs in it can't be anybody else's.
        alone = sqlite_file(settings.store.url, settings.data.directory) is not None
        await stack.enter_async_context(open_sessions(sessions, alone=alone))
        connections = OpenConnections(settings.limits)
        controller = ChatbotController(
            authenticator=authenticator,
            orchestrator=sessions.orchestrator,
            relay=relay,
            kpi=kpi,
            connections=connections,
            limits=settings.limits,
        )
        routes = _routes(settings.limits, connections, authenticator, agents, store, sessions, relay)
        yield Application(
            public=_public(settings, controller, routes, kpi, port),
            internal=internal_application(kpi, store, relay, authenticator, log_tail),
            relay=relay,
        )


def _routes(
    limits: LimitsSettings,
    connections: OpenConnections,
    authenticator: Authenticator,
    agents: AgentManager,
    store: Store,
    sessions: SessionServices,
    relay: Relay,
) -> list[Route]:
    """The REST calls."""
    orchestrator, desk = sessions.orchestrator, sessions.desk
    rest = RestApi(
        authenticator=authenticator, agents=agents, desk=desk, orchestrator=orchestrator, relay=relay, limits=limits
    )
    exchanges = ExchangesApi(
        authenticator=authenticator,
        desk=desk,
        orchestrator=orchestrator,
        relay=relay,
        connections=connections,
        limits=limits,
    )
    classic, metrics = ClassicApi(authenticator, desk, limits), MetricsApi(authenticator, store)
    return [*rest.routes(), *exchanges.routes(), *classic.routes(), *metrics.routes()]


def _factory(settings: Settings, models: ChatModels, authenticator: Authenticator, kpi: Kpi) -> AgentFactory:
    services = AgentServices(
        models=models,
        refresh_tokens=authenticator.refresh,
        exchange_token=authenticator.exchange,
        mcp_servers=settings.mcp_servers,
        mcp_server_up=kpi.mcp_server_up,
    )
    return AgentFactory(
        services,
        kpi,
        cache_size=settings.agents.cache_size,
        build_timeout_s=settings.agents.build_timeout_s,
        close_timeout_s=settings.agents.close_timeout_s,
    )


def _broadcast(settings: RelaySettings, instance_id: str, kpi: Kpi) -> AbstractAsyncContextManager[Broadcast]:
    if settings.url is None:
        return nullcontext(Alone())
    # Imported where it is used: few servers have others beside them.
    from agentic_backend.broadcast.redis_broadcast import redis_broadcast

    return redis_broadcast(settings.url, instance_id, kpi.relay_up)


def _relay(settings: Settings, broadcast: Broadcast) -> Relay:
    return Relay(
        broadcast=broadcast,
        keep_ended_bytes=settings.relay.keep_ended_bytes,
        keep_ended_s=settings.relay.keep_ended_s,
        compact_after=settings.relay.compact_after,
        max_running=settings.limits.max_running,
        running_per_user=settings.limits.running_per_user,
        grace_s=settings.server.grace_s,
    )


def _public(
    settings: Settings, controller: ChatbotController, routes: Sequence[Route], kpi: Kpi, port: int
) -> Starlette:
    """What the public listener on `port` serves, and to whom."""
    names = {*_LOOPBACK_NAMES, settings.server.host}
    return public_application(
        controller,
        routes,
        sign_in=SignIn.of(settings.auth),
        origins={*(_origin(name, port) for name in names), *settings.server.allowed_origins},
        hosts={*names, *settings.server.allowed_hosts},
        kpi=kpi,
    )


def _authenticator(settings: AuthSettings, kpi: Kpi) -> AbstractAsyncContextManager[Authenticator]:
    if settings.mode == "developer":
        return nullcontext(DeveloperAuthenticator(settings.developer.user))
    # Imported where it is used: it takes a quarter of a second.
    from agentic_backend.auth.keycloak import keycloak_authenticator

    return keycloak_authenticator(settings.keycloak, kpi.keycloak_up)


def _origin(name: str, port: int) -> str:
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"
