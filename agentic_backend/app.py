"""The composition root: settings in, a wired application out. The one place where parts meet, and their lifespan."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass

from starlette.routing import Route
from starlette.types import ASGIApp

from agentic_backend.agents.agent_factory import AgentFactory
from agentic_backend.agents.agent_flow import AgentServices
from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.agents.models import ChatModels
from agentic_backend.auth.developer import DeveloperAuthenticator
from agentic_backend.auth.user import Authenticator
from agentic_backend.broadcast.base import Alone, Broadcast
from agentic_backend.event_loop_lag import event_loop_lag
from agentic_backend.kpi import Kpi
from agentic_backend.limits_settings import LimitsSettings
from agentic_backend.log_tail import LogTail
from agentic_backend.sessions.departure import Departure
from agentic_backend.sessions.instance import Instance
from agentic_backend.sessions.relay import Relay
from agentic_backend.sessions.session_services import SessionServices, open_sessions, wire_sessions
from agentic_backend.settings import AuthSettings, RelaySettings, Settings
from agentic_backend.stores.opening import open_store, sqlite_file
from agentic_backend.stores.sqlite_pages import watched_pages
from agentic_backend.transports.chatbot_controller import ChatbotController
from agentic_backend.transports.classic_api import ClassicApi
from agentic_backend.transports.exchanges_api import ExchangesApi
from agentic_backend.transports.gate import Gate
from agentic_backend.transports.metrics_api import MetricsApi
from agentic_backend.transports.open_connections import OpenConnections
from agentic_backend.transports.probes import internal_application
from agentic_backend.transports.public_application import public_application
from agentic_backend.transports.readiness import Readiness
from agentic_backend.transports.repeats import bounded_records
from agentic_backend.transports.rest import RestApi
from agentic_backend.transports.rest_calls import RestCalls
from agentic_backend.transports.sign_in import SignIn

_LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class Application:
    """`public` and `internal` are what the two listeners serve; `relay` holds what runs; `kpi` counts it all."""

    public: ASGIApp
    internal: ASGIApp
    relay: Relay
    kpi: Kpi


@asynccontextmanager
async def open_application(
    settings: Settings, agents: AgentManager, models: ChatModels, port: int, departure: Departure
) -> AsyncIterator[Application]:
    """Everything wired and open, for a public listener on `port`; leaving it lets running exchanges end first.

    `departure` may cut short the time that they have.

    Raises CannotOpenStore, and StoreUnavailable where it fails right after.
    """
    kpi, log_tail = Kpi(), LogTail(settings.log.packages)
    async with AsyncExitStack() as stack:
        stack.enter_context(log_tail.attached())
        stack.enter_context(bounded_records())
        await stack.enter_async_context(event_loop_lag(kpi))
        file = sqlite_file(settings.store.url, settings.data.directory)
        pages = None if file is None else await stack.enter_async_context(watched_pages(file, kpi))
        store = await open_store(settings, kpi.store_operation)
        stack.push_async_callback(store.aclose)
        instance = Instance(settings.relay.lease_s)
        # Before anything runs, until nothing does.
        await stack.enter_async_context(store.heartbeat(instance.id, settings.relay.lease_s / 3))
        authenticator = await stack.enter_async_context(_authenticator(settings.auth, kpi))
        factory = _factory(settings, models, authenticator, kpi)
        stack.push_async_callback(factory.aclose)
        broadcast = await stack.enter_async_context(_broadcast(settings.relay, instance.id, kpi))
        relay = _relay(settings, broadcast, departure)
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
        await stack.enter_async_context(open_sessions(sessions, alone=file is not None))
        connections = OpenConnections(settings.limits)
        controller = ChatbotController(
            authenticator=authenticator,
            orchestrator=sessions.orchestrator,
            relay=relay,
            kpi=kpi,
            connections=connections,
            limits=settings.limits,
        )
        routes = _routes(settings.limits, connections, authenticator, agents, sessions, relay, kpi)
        yield Application(
            public=_public(settings, controller, routes, relay, kpi, port),
            internal=_internal(
                settings, internal_application(kpi, Readiness(store, relay, authenticator, pages), log_tail), kpi
            ),
            relay=relay,
            kpi=kpi,
        )


def _routes(
    limits: LimitsSettings,
    connections: OpenConnections,
    authenticator: Authenticator,
    agents: AgentManager,
    sessions: SessionServices,
    relay: Relay,
    kpi: Kpi,
) -> list[Route]:
    """The REST calls."""
    orchestrator, desk, calls = sessions.orchestrator, sessions.desk, RestCalls(authenticator, limits)
    rest = RestApi(
        calls=calls,
        agents=agents,
        desk=desk,
        orchestrator=orchestrator,
        relay=relay,
        connections=connections,
        kpi=kpi,
        limits=limits,
    )
    exchanges = ExchangesApi(
        calls=calls,
        desk=desk,
        orchestrator=orchestrator,
        relay=relay,
        connections=connections,
        kpi=kpi,
        limits=limits,
    )
    classic, metrics = ClassicApi(calls, desk, limits), MetricsApi(calls, sessions.reports)
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


def _relay(settings: Settings, broadcast: Broadcast, departure: Departure) -> Relay:
    return Relay(
        broadcast=broadcast,
        keep_ended_bytes=settings.relay.keep_ended_bytes,
        keep_ended_s=settings.relay.keep_ended_s,
        compact_after=settings.relay.compact_after,
        max_running=settings.limits.max_running,
        running_per_user=settings.limits.running_per_user,
        grace_s=settings.server.grace_s,
        departure=departure,
    )


def _public(
    settings: Settings, controller: ChatbotController, routes: Sequence[Route], relay: Relay, kpi: Kpi, port: int
) -> ASGIApp:
    """What the public listener on `port` serves, and to whom."""
    names = {*_LOOPBACK_NAMES, settings.server.host}
    return public_application(
        controller,
        routes,
        sign_in=SignIn.of(settings.auth),
        origins={*(_origin(name, port) for name in names), *settings.server.allowed_origins},
        hosts={*names, *settings.server.allowed_hosts},
        is_draining=lambda: relay.draining,
        kpi=kpi,
    )


def _internal(settings: Settings, application: ASGIApp, kpi: Kpi) -> ASGIApp:
    """What the internal listener serves: to scrapers and probes, which name it as they like, but to no page."""
    names = {*_LOOPBACK_NAMES, settings.server.internal_host, *settings.server.allowed_hosts}
    return Gate(
        application,
        origins=(),
        hosts=names,
        ip_addresses=True,
        tokens_from=None,
        is_draining=lambda: False,
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
