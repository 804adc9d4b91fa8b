"""The routes of the chat page: the document, which names a version of its files, and the files.

A file under `/static/VERSION/` never changes, so browsers keep it; only the document is revalidated. What is below
`/static/` without a version are the single sources, for pages of others that import the client's modules, and for the
tools of a browser, which find them by the source maps.
"""

import html
import json
import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from agentic_backend.mcp.apps.app_hosts import CSP, allowed_hosts, declared_hosts, frame_policy
from agentic_backend.transports.page.brand import Brand
from agentic_backend.transports.page.encoded_file import EncodedFile
from agentic_backend.transports.page.linked_files import LinkedFiles, linked_files
from agentic_backend.transports.sign_in import SignIn

WEB = Path(__file__).parents[2] / "web"

_FRAME = "frame.html"
"""The document of every frame, which gets what it shows from the page. What frames may do is said by its policy."""
_FRAMES_POLICY = frame_policy()
_TOLD = "<title>"
"""What tells a frame of its hosts stands before this."""
_VERSIONED = re.compile(r"/?([0-9a-f]{16})/(.+)")
_REVALIDATED = "no-cache"


class Page:
    """The page for one way to sign in. Making the first one in a process reads its files.

    `app_hosts` are those that the documents of each MCP server may use, by the server's id.
    """

    def __init__(
        self,
        sign_in: SignIn,
        brand: Brand,
        directory: Path = WEB,
        *,
        app_hosts: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        linked, own = linked_files(directory), brand.files()
        version = _version(linked, own)
        told = sign_in.model_dump(mode="json", exclude_none=True)
        document = linked.index.document(version, told, brand.name, brand.icon, brand.stylesheets)
        self._document = EncodedFile.of(document.encode(), "text/html")
        self._static = _Static(directory, linked, own, version, app_hosts)

    def routes(self) -> list[BaseRoute]:
        return [Route("/", self._get), Mount("/static", self._static)]

    async def _get(self, request: Request) -> Response:
        return self._document.response(request, _REVALIDATED)


def _version(linked: LinkedFiles, own: Mapping[str, EncodedFile]) -> str:
    digest = blake2b(linked.version, digest_size=8)
    for path, file in own.items():
        digest.update(f"{path}\0{file.etag}\0".encode())
    return digest.hexdigest()


class _Static:
    """The ASGI application of all files. The brand's `own` files stand beside the linked ones."""

    def __init__(
        self,
        directory: Path,
        linked: LinkedFiles,
        own: Mapping[str, EncodedFile],
        version: str,
        app_hosts: Mapping[str, Sequence[str]],
    ) -> None:
        self._linked = linked
        self._own = own
        self._version = version
        self._app_hosts = app_hosts
        self._sources = _Sources(directory=directory)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        versioned = _VERSIONED.fullmatch(scope["path"].removeprefix(scope["root_path"]))
        if versioned is None:
            await self._sources(scope, receive, send)
            return
        if scope["method"] not in ("GET", "HEAD"):
            raise HTTPException(405)
        file = self._own.get(versioned[2]) or await self._linked.get(versioned[2])
        if file is None:
            raise HTTPException(404)
        # While a new version is rolled out, an instance is asked for files of another one. Its own are nearly right.
        is_ours = versioned[1] == self._version
        request = Request(scope)
        if versioned[2] == _FRAME and request.query_params:
            await self._app_frame(file, request.query_params)(scope, receive, send)
            return
        cache_control = "public, max-age=31536000, immutable" if is_ours else "no-store"
        response = file.response(request, cache_control)
        if versioned[2] == _FRAME:
            response.headers["content-security-policy"] = _FRAMES_POLICY
        await response(scope, receive, send)

    def _app_frame(self, file: EncodedFile, asked: QueryParams) -> Response:
        """The frame for a document of the MCP server `asked["server"]` that declares hosts.

        Whoever makes up a query gets no more than the operator allows the documents of this server. The frame is told
        what that is, and tells the page.
        """
        declared, _ = declared_hosts({kind: asked.getlist(kind) for kind in CSP})
        hosts = allowed_hosts(declared, self._app_hosts.get(asked.get("server", ""), ()))
        told = f'<meta name="csp" content="{html.escape(json.dumps(hosts))}" />\n{_TOLD}'
        content = file.encodings["identity"].decode().replace(_TOLD, told, 1)
        # The settings may say something else after a restart.
        headers = {"content-security-policy": frame_policy(hosts), "cache-control": "no-store"}
        return Response(content, headers=headers, media_type=file.media_type)


class _Sources(StaticFiles):
    """The sources have no version in their names, so browsers revalidate them."""

    def file_response(self, *args: object, **kwargs: object) -> Response:
        response = super().file_response(*args, **kwargs)  # type: ignore[arg-type]
        response.headers.setdefault("cache-control", _REVALIDATED)
        return response
