"""System errors keep their words wherever they are told: each is a real one; no text and no secret is told."""

import asyncio
import errno
import logging
import os
import resource
import socket
import ssl
import subprocess
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import requests
from langchain_openai import ChatOpenAI
from support.certificates import certificate
from support.http_api import http_api
from support.ports import free_port

from agentic_backend.agents.models.model_check import check_model
from agentic_backend.apis.api_check import check_api
from agentic_backend.apis.api_client import tls
from agentic_backend.auth.realm_check import check_realm
from agentic_backend.config.checks import CheckFailed
from agentic_backend.config.settings import KeycloakSettings
from agentic_backend.config.topics.apis import ApiSettings
from agentic_backend.config.topics.mcp_servers import McpServerSettings
from agentic_backend.disclosure.exception_detail import text_of
from agentic_backend.exchange.end.settlement import FailureReport
from agentic_backend.mcp.server_check import check_mcp_server
from agentic_backend.stores.opening import CannotOpenStore, open_mongodb
from agentic_backend.system_errors import reason_of, summary_of, system_words_of
from agentic_backend.telemetry import story_of
from agentic_backend.telemetry.formatters import ConsoleFormatter

Patch = pytest.MonkeyPatch
Failing = Callable[[Path, Patch], Awaitable[object]]

SECRET = "sk-hunter22-of-the-tests"
REFUSED = "[Errno 111] Connection refused"
UNKNOWN = "[Errno -2] Name or service not known"
EXPIRED = "certificate verify failed: certificate has expired"
SELF_SIGNED = "certificate verify failed: self-signed certificate"
NO_FILE = "[Errno 2] No such file or directory; SSL_CERT_FILE names a path that does not exist"


def test_only_an_error_of_openssl_names_the_host_of_a_certificate() -> None:
    class Other(OSError):
        verify_message = "x, certificate is not valid for 'the canary sings'"

    assert "canary" not in summary_of(Other(errno.EACCES, "no"))


@asynccontextmanager
async def tls_server(pem: Path) -> AsyncIterator[int]:
    """A server with this certificate; yields its port on 127.0.0.1."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def asked(url: str) -> None:
    async with httpx.AsyncClient() as client:
        await client.get(url)


async def refused(tmp_path: Path, patch: Patch) -> None:
    await asked(f"http://127.0.0.1:{free_port()}")


async def unknown_host(tmp_path: Path, patch: Patch) -> None:
    await asked("http://nothing.invalid")


async def expired(tmp_path: Path, patch: Patch) -> None:
    async with tls_server(certificate(tmp_path / "a.pem", host="localhost", is_expired=True)) as port:
        patch.setenv("SSL_CERT_FILE", str(tmp_path / "a.pem"))
        await asked(f"https://localhost:{port}")


async def self_signed(tmp_path: Path, patch: Patch) -> None:
    async with tls_server(certificate(tmp_path / "a.pem")) as port:
        await asked(f"https://127.0.0.1:{port}")


async def other_host(tmp_path: Path, patch: Patch) -> None:
    async with tls_server(certificate(tmp_path / "a.pem", host="other.example")) as port:
        patch.setenv("SSL_CERT_FILE", str(tmp_path / "a.pem"))
        await asked(f"https://localhost:{port}")


async def no_tls(tmp_path: Path, patch: Patch) -> None:
    async with http_api() as api:
        await asked(api.url.replace("http:", "https:"))


async def no_trusted_file(tmp_path: Path, patch: Patch) -> None:
    patch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
    httpx.AsyncClient()


async def no_trusted_bundle(tmp_path: Path, patch: Patch) -> None:
    patch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "missing.pem"))
    requests.get("https://127.0.0.1:1", timeout=5)


async def no_trusted_directory(tmp_path: Path, patch: Patch) -> None:
    async with tls_server(certificate(tmp_path / "a.pem", issuer="nobody")) as port:
        patch.setenv("SSL_CERT_DIR", str(tmp_path / "missing"))
        await asked(f"https://127.0.0.1:{port}")


async def full_disk(tmp_path: Path, patch: Patch) -> None:
    with open("/dev/full", "wb", buffering=0) as full:
        full.write(b"x")


async def not_executable(tmp_path: Path, patch: Patch) -> None:
    (tmp_path / "program").write_text("")
    subprocess.run([tmp_path / "program"], check=False)


async def no_descriptor(tmp_path: Path, patch: Patch) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        os.open("/dev/null", os.O_RDONLY)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def no_thread(tmp_path: Path, patch: Patch) -> None:
    former = threading.stack_size(1 << 46)
    try:
        threading.Thread(target=list).start()
    finally:
        threading.stack_size(former)


async def no_memory(tmp_path: Path, patch: Patch) -> None:
    bytearray(1 << 60)


async def taken_address(tmp_path: Path, patch: Patch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as first:
        socket.create_server(first.getsockname())


NO_ISSUER = "certificate verify failed: unable to get local issuer certificate"
ERRORS: list[tuple[Failing, str]] = [
    (refused, f"ConnectError: {REFUSED} (127.0.0.1)"),
    (unknown_host, f"ConnectError: {UNKNOWN} (nothing.invalid)"),
    (expired, f"ConnectError: {EXPIRED} (localhost)"),
    (self_signed, f"ConnectError: {SELF_SIGNED} (127.0.0.1)"),
    (other_host, "ConnectError: certificate verify failed: Hostname mismatch (localhost)"),
    (no_tls, "ConnectError: TLS: wrong version number (127.0.0.1)"),
    (no_trusted_file, f"FileNotFoundError: {NO_FILE}"),
    (no_trusted_bundle, "OSError: REQUESTS_CA_BUNDLE names a path that does not exist"),
    (no_trusted_directory, f"ConnectError: {NO_ISSUER}; SSL_CERT_DIR names a path that does not exist (127.0.0.1)"),
    (full_disk, "OSError: [Errno 28] No space left on device"),
    (not_executable, "PermissionError: [Errno 13] Permission denied"),
    (no_descriptor, "OSError: [Errno 24] Too many open files"),
    (no_thread, "RuntimeError: can't start new thread"),
    (no_memory, "MemoryError: Cannot allocate memory"),
    (taken_address, "OSError: [Errno 98] Address already in use"),
]


@pytest.mark.parametrize(("failing", "summary"), ERRORS, ids=[failing.__name__ for failing, _ in ERRORS])
async def test_a_system_error_keeps_its_words(
    failing: Failing, summary: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    with pytest.raises(Exception) as failed:
        await failing(tmp_path, monkeypatch)
    error = failed.value
    assert summary_of(error) == summary
    words = system_words_of(error)
    assert words is not None
    for part in words.split("; "):
        assert part in text_of(error)
        assert any(part in str(cause.get("words")) for cause in story_of(error)), "and the log has them"


def test_an_error_of_no_system_has_its_class_alone() -> None:
    error = ValueError("Ann asked about her heart")
    assert (summary_of(error), text_of(error)) == ("ValueError", "Ann asked about her heart")
    assert "words" not in story_of(error)[0]


def test_words_are_those_of_the_system_whatever_a_text_says() -> None:
    for text in ("[Errno 111] her heart", "certificate verify failed: certificate has expired, said Ann"):
        words = system_words_of(ValueError(text))
        assert words in (REFUSED, EXPIRED)
    assert system_words_of(OSError(13, "her heart", "/heart.txt")) == "[Errno 13] Permission denied"
    assert system_words_of(ValueError("certificate verify failed: her heart")) is None


def test_only_the_secret_of_a_text_is_masked() -> None:
    error = PermissionError(13, "Permission denied", f"/data/{SECRET}")
    assert text_of(error, [SECRET]) == "[Errno 13] Permission denied: '/data/[redacted]'"
    assert reason_of(PermissionError(13, "Permission denied", "/data")) == "/data: Permission denied"
    assert reason_of(PermissionError(13, "Permission denied")) == "PermissionError: [Errno 13] Permission denied"


def test_the_end_of_an_exchange_tells_them_and_no_path() -> None:
    error = OSError(28, "No space left on device", "/ann/heart.txt")
    (told,) = FailureReport([]).log_fields(error)["exception"]
    assert told["text"] == "[Errno 28] No space left on device: '/…/….…'"


def test_a_line_for_people_has_them() -> None:
    record = logging.LogRecord("agentic_backend", logging.ERROR, "", 0, "uncaught error", None, None)
    try:
        os.stat("/nowhere/heart.txt")
    except OSError as error:
        record.exc_info = (type(error), error, error.__traceback__)
    lines = ConsoleFormatter().format(record).split("\n")
    assert lines[1] == "  FileNotFoundError: [Errno 2] No such file or directory"


async def test_the_check_of_a_model_tells_them() -> None:
    model = ChatOpenAI(model="m", api_key=SECRET, base_url=f"http://127.0.0.1:{free_port()}/v1", max_retries=0)
    with pytest.raises(CheckFailed, match=r"can't be reached.* \[Errno 111\] Connection refused \(127\.0\.0\.1\)"):
        await check_model("default", model)


async def test_the_check_of_a_realm_tells_them(tmp_path: Path, monkeypatch: Patch) -> None:
    async with tls_server(certificate(tmp_path / "a.pem", host="localhost", is_expired=True)) as port:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "a.pem"))
        settings = KeycloakSettings(realm_url=f"https://localhost:{port}/realms/chat", client_id="chat")
        with pytest.raises(CheckFailed, match=rf"no connection: \w+: {EXPIRED} \(localhost\)"):
            await check_realm(settings, 5)


async def test_the_check_of_an_mcp_server_tells_them(
    tmp_path: Path, monkeypatch: Patch, caplog: pytest.LogCaptureFixture
) -> None:
    async with tls_server(certificate(tmp_path / "a.pem")) as port:
        settings = McpServerSettings(url=f"https://127.0.0.1:{port}/mcp", transport="streamable_http")
        with pytest.raises(CheckFailed, match=SELF_SIGNED):
            await check_mcp_server("remote", settings, {}, 5)
    reasons = [vars(record)["reason"] for record in caplog.records if record.message == "MCP server can't be reached"]
    assert reasons == [f"ConnectError: {SELF_SIGNED} (127.0.0.1)"]


async def test_the_check_of_an_api_tells_them(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
    # The context of all clients may be there already.
    tls.cache_clear()
    settings = ApiSettings(document="http://127.0.0.1:1/openapi.json", base_url="http://127.0.0.1:1")
    with pytest.raises(CheckFailed, match=r"can't be fetched: FileNotFoundError: .*SSL_CERT_FILE names a path"):
        await check_api("crm", settings, {})


async def test_a_store_that_can_not_be_opened_tells_them(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(CannotOpenStore, match=r"no server answers there \(\[Errno -2\] Name or service not known\)"):
        await open_mongodb(f"mongodb://ann:{SECRET}@nothing.invalid/chat", "pymongo", 0.5)
    [told] = [vars(record) for record in caplog.records]
    assert (told["reason"], told["error"].split(": ")[1]) == ("unknown_host", UNKNOWN)
    assert SECRET not in caplog.text
