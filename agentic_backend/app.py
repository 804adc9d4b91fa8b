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
from agentic_backend.event_loop_lag import event_loop_lag
from agentic_backend.kpi import Kpi
from agentic_backend.log_tail import LogTail
from agentic_backend.sessions.recovery import recover_exchanges
from agentic_backend.sessions.relay import Relay
from agentic_backend.sessions.session_desk import SessionDesk
from agentic_backend.sessions.session_orchestrator import SessionOrchestrator
from agentic_backend.sessions.titles import Titles
from agentic_backend.settings import AuthSettings, Settings
from agentic_backend.stores.opening import open_store
from agentic_backend.transports.chatbot_controller import ChatbotController
from agentic_backend.transports.classic_api import ClassicApi
from agentic_backend.transports.metrics_api import MetricsApi
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
    kpi, log_tail = Kpi(), LogTail()
    async with AsyncExitStack() as stack:
        stack.enter_context(log_tail.attached())
        await stack.enter_async_context(event_loop_lag(kpi))
        store = await open_store(settings, kpi.store_operation)
        stack.push_async_callback(store.aclose)
        await recover_exchanges(store)
        authenticator = await stack.enter_async_context(_authenticator(settings.auth, kpi))
        factory = _factory(settings, models, authenticator, kpi)
        stack.push_async_callback(factory.aclose)
        relay = _relay(settings)
        stack.push_async_callback(relay.aclose)
        orchestrator = SessionOrchestrator(
            store=store,
            agents=agents,
            factory=factory,
            relay=relay,
            titles=Titles(models, store, relay, settings.limits.titles_timeout_s),
            kpi=kpi,
            limits=settings.limits,
        )
        desk = SessionDesk(store, agents, factory, relay)
        controller = ChatbotController(
            authenticator=authenticator, orchestrator=orchestrator, relay=relay, kpi=kpi, limits=settings.limits
        )
        rest = RestApi(
            authenticator=authenticator,
            agents=agents,
            desk=desk,
            orchestrator=orchestrator,
            relay=relay,
            limits=settings.limits,
        )
        classic, metrics = ClassicApi(authenticator, desk, settings.limits), MetricsApi(authenticator, store)
        routes = [*rest.routes(), *classic.routes(), *metrics.routes()]
        yield Application(
            public=_public(settings, controller, routes, kpi, port),
            internal=internal_application(kpi, store, relay, authenticator, log_tail),
            relay=relay,
        )


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


def _relay(settings: Settings) -> Relay:
    return Relay(
        keep_ended=settings.relay.keep_ended,
        keep_ended_s=settings.relay.keep_ended_s,
        compact_after=settings.relay.compact_after,
        max_running=settings.limits.max_running,
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
