"""The documents that ship with the product, as plain text: what the documentation agent cites leads to them.

They tell nothing of a server or its users, so they need no token.
"""

from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from agentic_backend.experts.documentation.document_index import SHIPPED, SHIPPED_LINKS

_HEADERS = {
    "cache-control": "no-cache",
    "content-security-policy": "default-src 'none'; sandbox",
    "x-content-type-options": "nosniff",
}


def document_route(folder: Path = SHIPPED) -> Route:
    files = {file.name: file for file in folder.glob("*.md")}

    async def get_document(request: Request) -> Response:
        file = files.get(request.path_params["file"])
        if file is None:
            raise HTTPException(404)
        return FileResponse(file, media_type="text/plain; charset=utf-8", headers=_HEADERS)

    return Route(SHIPPED_LINKS, get_document, methods=["GET"])
