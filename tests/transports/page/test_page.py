"""How the page's files are served: by version, compressed, revalidated only where they may change."""

import gzip
import re
from pathlib import Path

import brotli  # type: ignore[import-untyped]
import httpx
import pytest
from support.rest_client import plain_http
from support.running_server import RunningServer

from agentic_backend.transports.page.es_module import LinkError
from agentic_backend.transports.page.linked_files import LinkedFiles

FOREVER = "public, max-age=31536000, immutable"
IDENTITY = {"accept-encoding": "identity"}


async def document(http: httpx.AsyncClient) -> str:
    return (await http.get("/", headers=IDENTITY)).text


def versioned(document: str, path: str) -> str:
    found = re.search(rf'"(static/[0-9a-f]{{16}}/{re.escape(path)})"', document)
    assert found, path
    return f"/{found[1]}"


async def test_the_document_names_files_that_never_change(server: RunningServer) -> None:
    async with plain_http(base_url=server.address) as http:
        page = await document(http)
        named = re.findall(r'(?:href|src)="([^"]+)"', page)
        assert len(named) >= 4
        for path in named:
            response = await http.get(f"/{path}")
            assert (response.status_code, response.headers["cache-control"]) == (200, FOREVER), path


async def test_only_the_document_is_revalidated(server: RunningServer) -> None:
    async with plain_http(base_url=server.address) as http:
        response = await http.get("/")
        assert response.headers["cache-control"] == "no-cache"
        again = await http.get("/", headers={"if-none-match": f'"other", {response.headers["etag"]}'})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("gzip, deflate, br, zstd", "br"),
        ("gzip, deflate", "gzip"),
        ("GZIP;q=0.5", "gzip"),
        ("br;q=0, gzip", "gzip"),
        ("br;q=0.0", None),
        ("identity", None),
        ("brotli, gzipped", None),
        ("", None),
    ],
)
async def test_a_file_is_sent_in_the_best_encoding_that_is_accepted(
    server: RunningServer, accepted: str, encoding: str | None
) -> None:
    async with plain_http(base_url=server.address) as http:
        path = versioned(await document(http), "main.js")
        plain = (await http.get(path, headers=IDENTITY)).content
        async with http.stream("GET", path, headers={"accept-encoding": accepted}) as response:
            sent = b"".join([part async for part in response.aiter_raw()])
            assert (response.headers.get("content-encoding"), response.headers["vary"]) == (encoding, "accept-encoding")
            assert response.headers["content-type"].startswith("text/javascript")
    decode = {"br": brotli.decompress, "gzip": gzip.decompress, None: bytes}[encoding]
    assert decode(sent) == plain


async def test_a_module_that_is_loaded_later_is_linked_for_itself(server: RunningServer) -> None:
    async with plain_http(base_url=server.address) as http:
        main = versioned(await document(http), "main.js")
        late = main.replace("main.js", "sign-in/keycloak-sign-in.js")
        assert "oauth4webapi" in (await http.get(late)).text and "oauth4webapi" not in (await http.get(main)).text
        assert (await http.get(f"{late}.map")).json()["sources"][-1] == "../../sign-in/keycloak-sign-in.js"


async def test_a_file_of_another_version_is_never_kept(server: RunningServer) -> None:
    async with plain_http(base_url=server.address) as http:
        response = await http.get("/static/0123456789abcdef/style.css")
        assert (response.status_code, response.headers["cache-control"]) == (200, "no-store")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("HEAD", "main.js", 200),
        ("POST", "main.js", 405),
        ("GET", "gone.js", 404),
        ("GET", "main.js.map.map", 404),
        ("GET", "../settings.yaml", 404),
        ("GET", "%2e%2e/%2e%2e/app.py", 404),
        ("GET", "client", 404),
    ],
)
async def test_nothing_else_is_served(server: RunningServer, method: str, path: str, status: int) -> None:
    async with plain_http(base_url=server.address) as http:
        main = versioned(await document(http), "main.js")
        assert (await http.request(method, main.replace("main.js", path))).status_code == status


async def test_single_sources_are_served_for_other_pages(server: RunningServer) -> None:
    async with plain_http(base_url=server.address) as http:
        response = await http.get("/static/client/index.js")
        assert (response.status_code, response.headers["cache-control"]) == (200, "no-cache")
        assert "export {" in response.text


async def test_no_module_is_read_before_one_is_asked_for(tmp_path: Path) -> None:
    entry = '<script type="module" src="static/main.js"></script>'
    for name, text in {"index.html": entry, "main.js": "import {", "style.css": "", "logo.svg": "<svg/>"}.items():
        (tmp_path / name).write_text(text)
    files = LinkedFiles(tmp_path)
    assert await files.get("logo.svg") is not None
    with pytest.raises(LinkError, match=r"main\.js"):
        await files.get("main.js")
