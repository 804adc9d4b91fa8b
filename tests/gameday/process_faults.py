"""Faults of the server's own process, and of what it was given."""

import asyncio
import os
import resource
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import yaml
from gameday.fault import Fault
from gameday.site import Site
from support.chat_client import chat
from support.processes import children
from support.rest_client import plain_http

from agentic_backend.loop.event_loop import running

DESCRIPTORS = 256
# What a server may take beyond the address space that it has, and how much of the limit it takes. The rest has room
# for the heap of one more thread.
LEFT_BYTES, TAKEN = 400 << 20, 0.94
# The people of an overload, and the share of a core that it leaves to the server, in slices of so many seconds.
CROWD, LENT, LENT_EVERY_S = 60, 0.1, 0.1
# The threads for blocking code that a server may have, and how many of them an agent holds.
THREADS, CROWDED = 20, 19
ASK = ("words 3 0", None)


Entry = dict[str, Any]


def with_another(entry_of: Callable[[list[Entry]], Entry]) -> Callable[[Site], AbstractAsyncContextManager[None]]:
    """A server that is started with one more entry in its catalog, which is made of the others."""

    @asynccontextmanager
    async def inject(site: Site) -> AsyncIterator[None]:
        file = site.directory / "agents_catalog.yaml"
        good = file.read_text()
        entries = yaml.safe_load(good)["agents"]
        file.write_text(yaml.safe_dump({"agents": [*entries, entry_of(entries)]}))
        try:
            await site.restart()
            yield
        finally:
            file.write_text(good)
            await site.restart()

    return inject


STILLBORN = """
from agentic_backend.application import Application

class Stillborn(Application):
    id, title, version = "stillborn", "Stillborn", "1"

    async def start(self):
        raise RuntimeError("no license")
"""


@asynccontextmanager
async def unstartable_application(site: Site) -> AsyncIterator[None]:
    (site.directory / "stillborn.py").write_text(STILLBORN)
    site.environment["AGENTIC_APPLICATIONS"] = '[{"class_path": "stillborn:Stillborn"}]'
    try:
        await site.restart()
        yield
    finally:
        del site.environment["AGENTIC_APPLICATIONS"]
        await site.restart()


@asynccontextmanager
async def bad_reload(site: Site) -> AsyncIterator[None]:
    """SIGHUP while the catalog is no YAML; then SIGHUP with the good one."""
    file = site.directory / "agents_catalog.yaml"
    good = file.read_text()
    file.write_text("agents: [")
    site.server.process.send_signal(signal.SIGHUP)
    try:
        yield
    finally:
        file.write_text(good)
        said = len(site.log())
        site.server.process.send_signal(signal.SIGHUP)
        while not any(line["message"] == "catalog reloaded" for line in site.log()[said:]):
            await asyncio.sleep(0.1)


def blocking(short_s: int, full_s: int) -> Callable[[Site], AbstractAsyncContextManager[None]]:
    """An agent's tool blocks the event loop for so long."""

    @asynccontextmanager
    async def inject(site: Site) -> AsyncIterator[None]:
        blocked_s = full_s if site.in_full else short_s
        async with chat(site.address) as client:
            await client.send({"message": f"freeze {blocked_s} | words 3 0"})
            yield

    return inject


@asynccontextmanager
async def few_descriptors(site: Site) -> AsyncIterator[None]:
    """A server with a low limit, and more connections than it allows."""
    site.options = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))}
    await site.restart()
    try:
        with ExitStack() as stack:
            for _ in range(2 * DESCRIPTORS):
                stack.enter_context(await asyncio.to_thread(connected, site.public_port))
            yield
    finally:
        site.options = {}
        await site.restart()


@asynccontextmanager
async def hammering(site: Site) -> AsyncIterator[None]:
    """One person's program asks for a session that is not there, and does not stop."""

    async def hammer() -> None:
        headers = {"Authorization": "Bearer dev:mallory"}
        async with plain_http(base_url=site.address, headers=headers) as http:
            while True:
                await http.get("/agentic/v1/sessions/deleted")
                await asyncio.sleep(0.05)

    async with running(hammer()):
        yield


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30)


@asynccontextmanager
async def memory_taken(site: Site) -> AsyncIterator[None]:
    """A tool takes most of what the server may still take, and gives it back."""
    pid = site.server.pid
    most = resource.prlimit(pid, resource.RLIMIT_AS)[1]
    limit = address_space(pid) + LEFT_BYTES
    resource.prlimit(pid, resource.RLIMIT_AS, (limit, most))
    try:
        assert await site.outcome(f"hoard {int(TAKEN * limit - address_space(pid)) >> 20} | words 1 0", {}) == "ok"
        yield
        assert await site.outcome("hoard 0 | words 1 0", {}) == "ok"
        while not any(line["message"] == "memory no longer near its limit" for line in site.log()):
            await asyncio.sleep(0.1)
    finally:
        resource.prlimit(pid, resource.RLIMIT_AS, (most, most))


@asynccontextmanager
async def threads_taken(site: Site) -> AsyncIterator[None]:
    """A server with few threads for blocking code, of which a tool holds nearly all, and frees them."""
    right = dict(site.environment)
    site.environment["AGENTIC_LIMITS__MAX_RUNNING"] = str(THREADS)
    try:
        await site.restart()
        assert await site.outcome(f"crowd {CROWDED} | words 1 0", {}) == "ok"
        yield
        assert await site.outcome("crowd 0 | words 1 0", {}) == "ok"
    finally:
        site.environment = right
        await site.restart()


def address_space(pid: int) -> int:
    """In bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()


@asynccontextmanager
async def overload(site: Site) -> AsyncIterator[None]:
    """A machine that lends the server a tenth of a core, and people who ask as soon as they are answered."""
    server, is_over = site.server.process, asyncio.Event()

    async def lend() -> None:
        while not is_over.is_set():
            server.send_signal(signal.SIGSTOP)
            await asyncio.sleep(LENT_EVERY_S * (1 - LENT))
            server.send_signal(signal.SIGCONT)
            await asyncio.sleep(LENT_EVERY_S * LENT)

    async def ask() -> None:
        async with chat(site.address) as client:
            while not is_over.is_set():
                await client.ask("words 100 0")
                await asyncio.sleep(0.2)

    asking = [asyncio.create_task(ask()) for _ in range(CROWD)]
    lending = asyncio.create_task(lend())
    try:
        yield
    finally:
        is_over.set()
        await lending
        await asyncio.gather(*asking)


@asynccontextmanager
async def killed_worker(site: Site) -> AsyncIterator[None]:
    os.kill(children(site.server.pid)[0], signal.SIGKILL)
    yield


PROCESS_FAULTS = [
    Fault(
        name="blocked event loop",
        # Not that of the other block: a line that blocks again is told again only after a minute.
        site="rooted",
        inject=blocking(2, 2),
        alert="EventLoopBlocked",
        labels={"agent_id": "scripted"},
        panel=("agents.json", "Event loop blocked, by agent"),
        runbook="code that waits without `await`",
        log="code blocks the event loop",
        fields={"agent_id": "^scripted$", "line": r"fault_agents\.py:\d+", "stack": "freeze"},
        felt="Everybody's answers stand still for as long.",
        ask=ASK,
    ),
    Fault(
        name="event loop that stands",
        site="alone",
        inject=blocking(14, 25),
        alert="EventLoopStands",
        sooner={"> 5": "> 2"},
        panel=("saturation.json", "Event loop silent"),
        runbook="written while the block lasts",
        log="code blocks the event loop",
        fields={"agent_id": "^scripted$", "line": r"fault_agents\.py:\d+", "stack": "freeze"},
        felt="Nobody on this instance gets an answer.",
        ask=ASK,
        outcome="nothing",
        ready="event_loop_blocked",
    ),
    Fault(
        name="overload",
        site="alone",
        inject=overload,
        alert="Overloaded",
        panel=("saturation.json", "Backlog"),
        runbook="a container's CPU limit throttles",
        log="overloaded, asks are refused",
        fields={"answer_s": r"\d", "stream_s": r"\d"},
        felt="New asks are refused with `overloaded`; answers that have begun end, slowly.",
        ask=ASK,
        outcome="overloaded",
    ),
    Fault(
        name="file descriptors short",
        site="rooted",
        inject=few_descriptors,
        alert="DescriptorsShort",
        panel=("saturation.json", "File descriptors in use"),
        runbook="file descriptors run out",
        log="file descriptors run out, connections are dropped",
        fields={"count": r"\d+"},
        felt="New connections are dropped; open sockets go on.",
        ask=ASK,
        outcome="connection lost|handshake refused|nothing",
    ),
    Fault(
        name="memory near its limit",
        site="alone",
        inject=memory_taken,
        alert="MemoryNearLimit",
        panel=("saturation.json", "Share of the memory limit"),
        runbook="`memory near its limit`",
        log="memory near its limit",
        fields={"used_bytes": r"^\d{9,}$", "limit_bytes": r"^\d{9,}$"},
        felt="Nothing yet; beyond it the system kills the process.",
        ask=ASK,
    ),
    Fault(
        name="threads short",
        site="alone",
        inject=threads_taken,
        alert="ThreadsShort",
        panel=("saturation.json", "Blocking code, by agent"),
        runbook="a plain tool or node that waits for something slow without a timeout",
        log="threads near their limit",
        fields={"used": f"^{CROWDED}|{THREADS}$", "limit": f"^{THREADS}$", "agents": f"'scripted': {CROWDED}"},
        felt="Nothing yet; beyond it answers stand still.",
        ask=ASK,
    ),
    Fault(
        name="SIGHUP with a bad catalog",
        site="alone",
        inject=bad_reload,
        alert="ReloadFailed",
        panel=("agents.json", "Last reload"),
        runbook="catalog not reloaded",
        log="catalog not reloaded",
        fields={"problems": "agents_catalog"},
        felt="Nothing: the catalog from before goes on. SIGHUP with a good one ends it.",
        ask=ASK,
    ),
    Fault(
        name="one person hammers",
        site="rooted",
        inject=hammering,
        alert="OnePersonRefused",
        panel=("sockets.json", "Refusals of one person, and of all, in a minute"),
        runbook="once a minute: who it is",
        log="one person is refused often",
        fields={"user_id": "^mallory$", "code": "session_not_found"},
        felt="Nothing, but for one, who is refused all the time.",
        ask=ASK,
    ),
    Fault(
        name="bad catalog",
        site="alone",
        inject=with_another(lambda _: {"id": "lost", "class_path": "no_such_module:Agent"}),
        alert="CatalogProblems",
        panel=("agents.json", "Faults of the catalog"),
        runbook="catalog problem",
        log="catalog problem",
        fields={"problem": "no_such_module"},
        felt="The agent is missing; the others answer.",
        ask=ASK,
    ),
    Fault(
        name="application that can't start",
        site="alone",
        inject=unstartable_application,
        alert="ApplicationDown",
        panel=("agents.json", "Applications that do not serve"),
        runbook="application failed",
        log="application failed",
        fields={"application": "^stillborn$", "step": "^start$", "error": "RuntimeError"},
        felt="Its calls are refused; everything else goes on.",
        ask=ASK,
    ),
    Fault(
        name="two catalogs",
        site="pair",
        inject=with_another(lambda entries: {**entries[0], "id": "newcomer", "default": False}),
        alert="CatalogsDiffer",
        panel=("agents.json", "Catalogs that are served"),
        runbook="`server started`",
        log="server started",
        fields={"agents": "newcomer"},
        felt="An agent is there on one instance and not on the other.",
        ask=ASK,
    ),
    Fault(
        name="killed worker",
        site="workers",
        inject=killed_worker,
        alert="WorkerRestarts",
        panel=("sockets.json", "Processes that started"),
        runbook="-9 is mostly the memory limit",
        log="worker ended",
        fields={"status": "^-9$"},
        felt="Its sockets close and connect again; what it ran is interrupted and can be continued.",
        ask=ASK,
    ),
]
