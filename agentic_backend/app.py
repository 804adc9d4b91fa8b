"""The composition root: builds the app from the settings, wires its parts, and owns their lifespans."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
from starlette.types import ASGIApp

from agentic_backend.agents.agent_factory import AgentFactory
from agentic_backend.agents.agent_flow import AgentServices
from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.agents.models.chat_models import ChatModels
from agentic_backend.agents.run.at_work import found_at_work
from agentic_backend.auth.developer import DeveloperAuthenticator
from agentic_backend.auth.user import Authenticator
from agentic_backend.auth.user_tokens import TokenCache
from agentic_backend.config.loading import modules_file
from agentic_backend.config.settings import AuthSettings, Settings
from agentic_backend.config.topics.page import load_logo
from agentic_backend.disclosure.known_secrets import secrets_in
from agentic_backend.exchange.instance import Instance
from agentic_backend.hosting.application_host import ApplicationHost
from agentic_backend.hosting.event_streams import OpenStreams
from agentic_backend.hosting.loading import NO_APPLICATIONS, Applications
from agentic_backend.kpi import Kpi
from agentic_backend.loop.blocked_loop import watched_loop
from agentic_backend.loop.event_loop import event_loop_lag, running
from agentic_backend.loop.loop_load import loop_load
from agentic_backend.mcp.shared_sessions import SharedSessions
from agentic_backend.policy.hooks.module_services import module_services
from agentic_backend.policy.hooks.module_supervisor import ModuleSupervisor
from agentic_backend.policy.hooks.modules_file import ModuleSpec, module_names, read_modules
from agentic_backend.policy.scopes.policies_file import Policies, load_policies
from agentic_backend.policy.scopes.scopes import Scopes
from agentic_backend.policy.usage.budgets import Budgets
from agentic_backend.policy.usage.prices import Prices
from agentic_backend.policy.usage.usage_ledger import UsageLedger
from agentic_backend.relay.backlog import Backlog
from agentic_backend.relay.broadcast import Alone, Broadcast
from agentic_backend.relay.drain import Drain
from agentic_backend.relay.relay import Relay
from agentic_backend.relay.zmq.peers import Peers
from agentic_backend.sessions.agents.database_agents import DatabaseAgents
from agentic_backend.sessions.documents import Documents
from agentic_backend.sessions.server_parts import ServerParts
from agentic_backend.sessions.wiring import SessionServices, open_sessions, wire_sessions
from agentic_backend.stores.base import Store
from agentic_backend.stores.journal.journal import JournalUnavailable
from agentic_backend.stores.journal.journaled_store import JournaledStore
from agentic_backend.stores.journal.upkeep import JournalUpkeep
from agentic_backend.stores.observing import ignore
from agentic_backend.stores.opening import CannotOpenStore, open_store, sqlite_file
from agentic_backend.stores.protocol.items import ItemBounds
from agentic_backend.stores.sqlite.page_check import PagesWatch, watched_pages
from agentic_backend.streaming.model.stream_turns import StreamTurns
from agentic_backend.telemetry import LogTail
from agentic_backend.tools.standard_tools import standard_tools
from agentic_backend.tracing.tracing import open_tracing
from agentic_backend.transports.all_operations import all_operations
from agentic_backend.transports.calls.admin.admin_gate import AdminGate
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.gate.call_ids import CallIds
from agentic_backend.transports.gate.gate import Gate
from agentic_backend.transports.open_connections import OpenConnections
from agentic_backend.transports.page.brand import Brand
from agentic_backend.transports.page.page import Page
from agentic_backend.transports.probes.application import internal_application
from agentic_backend.transports.probes.joint_application import Ports, joint_application
from agentic_backend.transports.probes.readiness import Liveness, Readiness
from agentic_backend.transports.public_application import public_application
from agentic_backend.transports.rest.rest_calls import RestCalls
from agentic_backend.transports.sign_in import SignIn
from agentic_backend.transports.socket.chatbot_controller import ChatbotController

_LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class App:
    """`public` and `internal`: the ASGI applications of the two listeners. `relay` holds the running exchanges,
    `factory` their agents, `host` the applications; `services` are what every transport uses.
    """

    public: ASGIApp
    internal: ASGIApp
    relay: Relay
    factory: AgentFactory
    kpi: Kpi
    services: DoorServices
    store: Store
    database_agents: DatabaseAgents
    host: ApplicationHost


@asynccontextmanager
async def open_app(
    settings: Settings,
    agents: AgentManager,
    models: ChatModels,
    port: int,
    drain: Drain,
    peers: Peers | None = None,
    applications: Applications = NO_APPLICATIONS,
) -> AsyncIterator[App]:
    """Open and wire all parts for a public listener on `port`; leaving the context waits for running exchanges.

    `drain` may cut that wait short. A worker hears the others at `peers`, unless there is a broadcast between servers.

    Raises ConfigError if a file that the settings name is invalid, CannotOpenStore, and StoreUnavailable if the store
    fails right after it is opened.
    """
    file_of_modules = modules_file(settings)
    policies = load_policies(settings, agents.chat_profiles, module_names(file_of_modules))
    specs = read_modules(file_of_modules, agents.known_ids, policies.modules_on)
    kpi = Kpi()
    kpi.models.configured(lambda: models.request_names | models.embeddings.request_names)
    kpi.agents.catalog(lambda: len(agents.problems), lambda: agents.sources.file_hash)
    log_tail = LogTail(settings.log.packages, [*secrets_in(settings.model_dump()), *agents.secrets])
    async with AsyncExitStack() as stack:
        stack.enter_context(log_tail.attached())
        load = await stack.enter_async_context(event_loop_lag(kpi))
        stack.enter_context(watched_loop(kpi, settings.agents.blocking_s, found_at_work))
        file = sqlite_file(settings.store.url, settings.data.directory)
        pages = None if file is None else await stack.enter_async_context(watched_pages(file, kpi))
        store = await stack.enter_async_context(aclosing(await _open_store(settings, kpi, pages)))
        # Before anything is read of it: it may be a restored backup.
        await stack.enter_async_context(_upkeep_of_journal(store, settings))
        connections = OpenConnections(settings.limits)
        streams = OpenStreams(connections, drain)
        host = ApplicationHost(applications, store, settings.limits, kpi, streams, settings.permissions)
        # They close after the exchanges that call them.
        await stack.enter_async_context(host.closing())
        modules = sorted([*specs, *host.modules()], key=lambda spec: spec.entry.priority)
        parts, authenticator = await _open_parts(
            stack, settings, agents, models, store, kpi, policies, modules, host, drain, peers
        )
        sessions = wire_sessions(parts)
        # Only one server uses a SQLite file, so all instances on it are known.
        sole_server, alone = file is not None, file is not None and settings.server.workers == 1
        await stack.enter_async_context(open_sessions(sessions, alone=alone, sole_server=sole_server))
        services = _door_services(parts, sessions, authenticator, connections)
        host.start(models, parts.ledger, agents, parts.documents, sessions.text_reviews)
        await stack.enter_async_context(host.doing_chores(parts.instance))
        liveness = Liveness(load, settings.health)
        readiness = Readiness(store, parts.relay, authenticator, pages, settings.health)
        yield App(
            public=_public(settings, services, host, await asyncio.to_thread(_page, settings, services), port),
            internal=_internal(settings, internal_application(kpi, liveness, readiness, log_tail), kpi),
            relay=parts.relay,
            factory=parts.factory,
            kpi=kpi,
            services=services,
            store=store,
            database_agents=sessions.database_agents,
            host=host,
        )


async def _open_store(settings: Settings, kpi: Kpi, pages: PagesWatch | None) -> Store:
    """Raises CannotOpenStore."""
    return await open_store(settings, kpi.dependencies.store_operation, ignore if pages is None else pages.suspect)


@asynccontextmanager
async def _upkeep_of_journal(store: Store, settings: Settings) -> AsyncIterator[None]:
    """Do again in a restored database what was deleted, and keep its journal. Raises as `open_app` does."""
    if not isinstance(store, JournaledStore):
        yield
        return
    counted_since = Budgets(store, settings.budgets).counted_since
    upkeep = JournalUpkeep(store, settings.deletions.keep_days, counted_since)
    try:
        await upkeep.catch_up()
    except JournalUnavailable as error:
        raise CannotOpenStore(f"deletions.journal: {error}") from error
    async with running(upkeep.run()):
        yield


async def _open_parts(
    stack: AsyncExitStack,
    settings: Settings,
    agents: AgentManager,
    models: ChatModels,
    store: Store,
    kpi: Kpi,
    policies: Policies,
    specs: Sequence[ModuleSpec],
    host: ApplicationHost,
    drain: Drain,
    peers: Peers | None,
) -> tuple[ServerParts, Authenticator]:
    """Enter what sessions are built on into `stack`, in an order in which each part closes before those it uses.

    Raises CannotStartModule, and what opens a broadcast or Keycloak raises.
    """
    instance = Instance(settings.relay.lease_s)
    kpi.process.instance(instance.id)
    # It closes after the exchanges whose spans it sends.
    tracing = await stack.enter_async_context(open_tracing(settings.tracing, instance.id))
    # The heartbeat covers the whole time in which exchanges can run.
    await stack.enter_async_context(store.heartbeat(instance.id, settings.relay.lease_s / 3))
    budgets = Budgets(store, settings.budgets)
    ledger = await stack.enter_async_context(aclosing(UsageLedger(store, Prices(settings.prices), kpi, budgets)))
    supervisor = ModuleSupervisor(store, kpi, lambda work: relay.spawn(work), scope_facts=Scopes(policies).facts)
    # They close after the exchanges that use them.
    modules = await stack.enter_async_context(aclosing(supervisor))
    await modules.start(specs, module_services(models, ledger))
    authenticator = await stack.enter_async_context(_authenticator(settings.auth, kpi))
    tokens = await stack.enter_async_context(aclosing(TokenCache(authenticator.refresh)))
    factory = await _open_factory(stack, settings, models, authenticator, store, kpi, policies, host)
    broadcast = await stack.enter_async_context(await _broadcast(settings.broadcast.url, peers, instance.id, kpi))
    turns, load = StreamTurns(), loop_load()
    backlog = Backlog(
        {"answer": lambda: load.answer_s, "stream": lambda: turns.longest_wait_s}, settings.limits.backlog_s
    )
    kpi.process.backlog(lambda: backlog.age_s, backlog.look)
    relay = await stack.enter_async_context(aclosing(_relay(settings, broadcast, drain, backlog)))
    parts = ServerParts(
        settings=settings,
        instance=instance,
        store=store,
        relay=relay,
        agents=agents,
        factory=factory,
        models=models,
        kpi=kpi,
        tokens=tokens,
        ledger=ledger,
        policies=policies,
        modules=modules,
        tracing=tracing,
        turns=turns,
        documents=Documents(),
        applications=host.instances,
        forget_in_applications=host.forget,
    )
    return parts, authenticator


def _door_services(
    parts: ServerParts, sessions: SessionServices, authenticator: Authenticator, connections: OpenConnections
) -> DoorServices:
    settings = parts.settings
    return DoorServices(
        authenticator=authenticator,
        tokens=parts.tokens,
        agents=parts.agents,
        sessions=sessions,
        relay=parts.relay,
        connections=connections,
        kpi=parts.kpi,
        tracing=parts.tracing,
        limits=settings.limits,
        sign_in=SignIn.of(settings.auth),
        doors=settings.server.doors,
        mcp_agents=settings.server.mcp_agents,
        secrets=parts.factory.secrets,
    )


async def _open_factory(
    stack: AsyncExitStack,
    settings: Settings,
    models: ChatModels,
    authenticator: Authenticator,
    store: Store,
    kpi: Kpi,
    policies: Policies,
    host: ApplicationHost,
) -> AgentFactory:
    def describe(kind: str, scope_id: str) -> Mapping[str, Any]:
        entry = policies.entry(kind, scope_id)
        return entry.facts if entry is not None else {}

    # They close after the agents that use them.
    shared_mcp_sessions = await stack.enter_async_context(aclosing(SharedSessions()))
    bounds = ItemBounds(settings.agents.store_items, settings.agents.store_bytes)
    services = AgentServices(
        models=models,
        exchange_token=authenticator.exchange,
        store=store,
        item_bounds=bounds,
        state_types=settings.agents.state_types,
        standard_tools=standard_tools(store, bounds, describe),
        mcp_servers=settings.mcp_servers,
        apis=settings.apis,
        shared_mcp_sessions=shared_mcp_sessions,
        middleware=host.middleware,
        mcp_server_up=kpi.dependencies.mcp_server_up,
    )
    return await stack.enter_async_context(aclosing(AgentFactory(services, kpi, settings.agents)))


async def _broadcast(
    url: str | None, peers: Peers | None, instance_id: str, kpi: Kpi
) -> AbstractAsyncContextManager[Broadcast]:
    if url is None and peers is None:
        return nullcontext(Alone())

    def imported() -> AbstractAsyncContextManager[Broadcast]:
        away, metrics = kpi.dependencies.broadcast_away, kpi.broadcast
        if url is not None:
            from agentic_backend.relay.redis.broadcast import redis_broadcast

            return redis_broadcast(url, instance_id, away, metrics)
        from agentic_backend.relay.zmq.broadcast import zmq_broadcast

        assert peers is not None
        return zmq_broadcast(peers, instance_id, away, metrics)

    # Few servers broadcast, and what it imports takes too long for the loop.
    return await asyncio.to_thread(imported)


def _relay(settings: Settings, broadcast: Broadcast, drain: Drain, backlog: Backlog) -> Relay:
    return Relay(
        broadcast=broadcast,
        keep_ended_bytes=settings.relay.keep_ended_bytes,
        max_running=settings.limits.max_running,
        running_per_user=settings.limits.running_per_user,
        grace_s=settings.server.grace_s,
        drain=drain,
        backlog=backlog,
    )


def _public(settings: Settings, services: DoorServices, host: ApplicationHost, page: Page, port: int) -> ASGIApp:
    """The application of the public listener on `port`, with its allowed origins and hosts."""
    names = {*_LOOPBACK_NAMES, settings.server.host}
    calls = RestCalls(
        services.authenticator,
        services.tokens,
        services.limits,
        AdminGate(services.sessions.admin_reads),
        services.kpi,
        services.tracing,
    )
    return public_application(
        ChatbotController(services),
        calls.routes([*all_operations(services, host.serving), *host.operations()]),
        page,
        tokens_from=services.sign_in.origin,
        origins={*(_origin(name, port) for name in names), *settings.server.allowed_origins},
        hosts={*names, *settings.server.allowed_hosts},
        is_draining=lambda: services.relay.draining,
        kpi=services.kpi,
        secrets=services.secrets,
        sample_ratio=settings.tracing.sample_ratio if settings.tracing.endpoint is not None else 0.0,
    )


def _page(settings: Settings, services: DoorServices) -> Page:
    """Raises ConfigError if the logo is none."""
    brand = Brand(settings.page.name, load_logo(settings.page), settings.page.accent)
    app_hosts = {server_id: server.app_hosts for server_id, server in settings.mcp_servers.items() if server.app_hosts}
    return Page(services.sign_in, brand, app_hosts=app_hosts)


def joint_internal(settings: Settings, client: httpx.AsyncClient, ports: Ports) -> ASGIApp:
    """The application of the internal listener of all workers; `client` asks them at their `ports`."""
    return _internal(settings, joint_application(client, ports, settings.server.workers, settings.health), Kpi())


def _internal(settings: Settings, application: ASGIApp, kpi: Kpi) -> ASGIApp:
    """The application of the internal listener: scrapers and probes may use any address; web pages are refused."""
    names = {*_LOOPBACK_NAMES, settings.server.internal_host, *settings.server.allowed_hosts}
    gate = Gate(
        application,
        origins=(),
        hosts=names,
        ip_addresses=True,
        tokens_from=None,
        is_draining=lambda: False,
        kpi=kpi,
    )
    return CallIds(gate, sample_ratio=0.0)


def _authenticator(settings: AuthSettings, kpi: Kpi) -> AbstractAsyncContextManager[Authenticator]:
    if settings.mode == "developer":
        developer = settings.developer
        return nullcontext(DeveloperAuthenticator(developer.user, groups=developer.groups, scope=developer.scope))
    # Imported here, because the import takes a quarter of a second.
    from agentic_backend.auth.keycloak import keycloak_authenticator

    check = partial(kpi.connections.token_check, "renewal")
    return keycloak_authenticator(settings.keycloak, kpi.dependencies.keycloak_away, check)


def _origin(name: str, port: int) -> str:
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"
