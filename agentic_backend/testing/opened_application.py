"""OpenedApplication: an application in a whole server without sockets, whose calls a test makes."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Generic, TypeVar

import httpx
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel

from agentic_backend.app import App, open_app
from agentic_backend.application import Application, class_path_of
from agentic_backend.hosting.declared_calls import prefix_of
from agentic_backend.relay.drain import Drain
from agentic_backend.testing.network import blocked_network
from agentic_backend.testing.served_catalog import ApplicationProblems, served_application

A = TypeVar("A", bound=Application)


@dataclass
class OpenedApplication(Generic[A]):
    """Made by `open_application`."""

    app: App
    application: A
    """The one that serves."""
    blocked_hosts: list[str]
    """The hosts that something has tried to reach."""

    def client(self, user: str = "developer") -> httpx.AsyncClient:
        """A client whose paths begin below `/apps/{id}`, and whose calls are those of this user."""
        address = f"http://127.0.0.1{prefix_of(self.application.id)}"
        # What a call raises is an answer, as it is on a server.
        transport = httpx.ASGITransport(_on_a_connection(self.app.public), raise_app_exceptions=False)
        headers = {"authorization": f"Bearer dev:{user}"}
        return httpx.AsyncClient(base_url=address, transport=transport, headers=headers)


def _on_a_connection(app: Any) -> Any:
    """`app` with what a server tells of a connection, and with each request in a context of its own."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        state = {"abort": lambda: None, "has_client_ended": lambda: False}
        await asyncio.create_task(app({**scope, "state": state}, receive, send))

    return answer


@asynccontextmanager
async def open_application(
    kind: type[A],
    settings: Mapping[str, Any] | None = None,
    *,
    store: str | None = None,
    network: bool = False,
    embeddings: Embeddings | None = None,
    model: BaseChatModel | None = None,
) -> AsyncIterator[OpenedApplication[A]]:
    """An application as a server would serve it, with these settings of its own, until the context ends.

    `kind` is its class, at the top of a module. `store` is the URL of a database; None is a new SQLite file. Unless
    `network` is allowed, only this machine can be reached. `embeddings`, such as ScriptedEmbeddings, are the settings'
    `default` embedding model; without them there is none, so the application's own embedder embeds. `model`, such as a
    ScriptedModel, takes the place of the offline model.

    Raises ApplicationProblems if it can't be served so.
    """
    with ExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory(ignore_cleanup_errors=True)))
        served = served_application(class_path_of(kind), settings or {}, directory, store, embeddings, model)
        hosts = [] if network else stack.enter_context(blocked_network())
        opened = open_app(served.settings, served.agents, served.models, 0, Drain(), applications=served.applications)
        async with opened as app:
            application = served.applications.loaded[0].application
            assert isinstance(application, kind)
            await app.host.have_started()
            if class_path_of(kind) not in app.host.instances:
                raise ApplicationProblems(f"the application {application.id!r} does not start; the log says why")
            yield OpenedApplication(app, application, hosts)
