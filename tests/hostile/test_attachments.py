"""Files that are made to harm: names, contents and bodies. The server stays whole, and others feel nothing of it."""

import asyncio
import signal
import sqlite3
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import httpx
import pytest
from support.attached_files import a_pdf, a_png, upload, uploaded
from support.bystander import bystander
from support.rest_client import PREFIX, error_of, plain_http, rest
from support.running_server import RunningServer, running_server
from support.server_process import ServerProcess, serving

from agentic_backend.attachments.names import LONGEST_NAME, clean_name

LARGE = 10 * 1024 * 1024
BOUNDARY = "x" * 70
NAMES = [
    "../../../../etc/passwd",
    "..\\..\\boot.ini",
    "/etc/cron.d/job",
    "C:\\Windows\\system.ini",
    "..",
    ".",
    ".htaccess",
    "",
    "   ",
    "a\r\nSet-Cookie: owned=1",
    'a"; filename="b.html',
    "a\0.png",
    "\u202egnp.exe",
    "\u2066a\u2069.txt",
    "a\u2028b",
    "x" * 3_000 + ".pdf",
    "<img src=x onerror=alert(1)>.txt",
    "${jndi:ldap://x}.txt",
    "CON",
    "٠١٢٣.txt",
    "😀.txt",
]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path) as server:
        yield server


async def post(server: RunningServer | ServerProcess, body: bytes, content_type: str | None = None) -> httpx.Response:
    headers = {"content-type": content_type or f"multipart/form-data; boundary={BOUNDARY}"}
    async with plain_http() as http:
        return await http.post(f"{server.address}{PREFIX}/attachments", content=body, headers=headers)


def part(content: bytes, head: bytes = b'Content-Disposition: form-data; name="file"; filename="a.txt"') -> bytes:
    return b"--%b\r\n%b\r\n\r\n%b\r\n" % (BOUNDARY.encode(), head, content)


END = f"--{BOUNDARY}--\r\n".encode()


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
async def test_a_name_is_no_path_no_header_and_no_markup(name: str, server: RunningServer) -> None:
    cleaned = clean_name(name)
    assert 0 < len(cleaned) <= LONGEST_NAME and not cleaned.startswith(".")
    assert all(one.isprintable() and one not in '/\\<>":|?*' for one in cleaned)
    before = await asyncio.to_thread(lambda: {path for path in server.data.rglob("*") if path.is_file()})
    async with rest(server) as http:
        shown = await uploaded(http, b"x", name or " ")
        answer = await http.get(f"/attachments/{shown['id']}")
    assert "\n" not in shown["name"] and "/" not in shown["name"]
    assert "set-cookie" not in answer.headers and answer.headers["content-disposition"].startswith("attachment; ")
    new = await asyncio.to_thread(lambda: {path for path in server.data.rglob("*") if path.is_file()} - before)
    assert {path.name for path in new} - {"chat.sqlite3-wal", "chat.sqlite3-shm"} == {shown["id"]}


@pytest.mark.parametrize(
    "content",
    [
        b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>",
        b"<!doctype html><script>alert(1)</script>",
        b"GIF89a\x01\x00\x01\x00/*<script>alert(1)</script>*/",
        a_png() + b"<script>alert(1)</script>",
        b"\xff\xfe<\x00s\x00v\x00g\x00",
    ],
    ids=["svg", "html", "gif", "png", "utf-16"],
)
async def test_no_content_is_served_as_active(content: bytes, server: RunningServer) -> None:
    async with rest(server) as http:
        answer = await http.post("/attachments", files={"file": ("x.svg", content, "image/svg+xml")})
        if answer.status_code == 400:
            return
        served = await http.get(f"/attachments/{answer.json()['id']}")
    assert served.headers["content-type"] in ("text/plain", "text/plain; charset=utf-8", "image/gif", "image/png")
    assert served.headers["content-disposition"].startswith("attachment; ")
    assert served.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert served.headers["x-content-type-options"] == "nosniff"


BODIES: dict[str, tuple[bytes, str | None]] = {
    "nothing": (b"", None),
    "json": (b"{}", "application/json"),
    "no boundary": (part(b"x") + END, "multipart/form-data"),
    "empty boundary": (part(b"x") + END, "multipart/form-data; boundary="),
    "long boundary": (part(b"x") + END, f"multipart/form-data; boundary={'x' * 10_000}"),
    "long type": (part(b"x") + END, f'multipart/form-data; a="{";" * 50_000}"; boundary={BOUNDARY}'),
    "no end": (part(b"x"), None),
    "no file": (part(b"x", b'Content-Disposition: form-data; name="file"') + END, None),
    "another name": (part(b"x", b'Content-Disposition: form-data; name="f"; filename="a"') + END, None),
    "no disposition": (part(b"x", b"Content-Type: text/plain") + END, None),
    "two files": (part(b"x") + part(b"y") + END, None),
    "a field too": (part(b"x") + part(b"y", b'Content-Disposition: form-data; name="a"') + END, None),
    "thousands of parts": (part(b"x") * 20_000 + END, None),
    "a long header": (part(b"x", b"X: " + b"y" * 1_000_000) + END, None),
    "many headers": (part(b"x", b"\r\n".join(b"X%d: y" % n for n in range(50_000))) + END, None),
    "a header without end": (f"--{BOUNDARY}\r\n".encode() + b"x" * 1_000_000, None),
    "no multipart at all": (b"\xff" * 100_000, None),
}


@pytest.mark.parametrize("kind", BODIES)
async def test_a_body_of_another_form_is_refused(kind: str, server: RunningServer) -> None:
    refused = await post(server, *BODIES[kind])
    assert refused.status_code == 400 and error_of(refused)["code"] == "bad_frame"


@pytest.mark.parametrize("beside", ["before", "after"])
async def test_what_a_body_has_beside_its_file_is_bounded(beside: str, tmp_path: Path) -> None:
    rubbish, whole = b"\r\n" * 20_000, part(b"x") + END
    body = rubbish + whole if beside == "before" else whole + rubbish

    async def in_chunks() -> AsyncIterator[bytes]:
        """A body that doesn't tell its length."""
        yield body

    async with running_server(tmp_path, settings={"limits": {"attachment_bytes": 1_024}}) as server:
        async with plain_http() as http:
            head = {"content-type": f"multipart/form-data; boundary={BOUNDARY}"}
            refused = await http.post(f"{server.address}{PREFIX}/attachments", content=in_chunks(), headers=head)
    assert (refused.status_code, error_of(refused)["code"]) == (413, "message_too_large")


async def test_bodies_that_are_hard_to_parse_hold_nobody_up(tmp_path: Path) -> None:
    pieces = [b"\r", b"\r\n", b"\r\n--", b"\r\n--" + b"x" * 69, b"-", b"\0"]
    bodies = [part(piece * (LARGE // len(piece))) + END for piece in pieces]
    async with serving(cwd=tmp_path) as server, bystander(server.address, server.internal) as felt:
        answers = await asyncio.gather(*(post(server, body) for body in bodies))
    assert {answer.status_code for answer in answers} <= {201, 400}
    assert felt.waited_at_most(1.0), felt.slowest_s


async def test_four_large_uploads_at_once_hold_nobody_up(tmp_path: Path) -> None:
    image = a_png() + bytes(LARGE - 1_000)
    async with serving(cwd=tmp_path) as server, bystander(server.address, server.internal) as felt:
        async with plain_http(base_url=server.address + PREFIX) as http:
            shown = await asyncio.gather(*(uploaded(http, image) for _ in range(4)))
            answers = await asyncio.gather(*(http.get(f"/attachments/{each['id']}") for each in shown))
    assert [len(answer.content) for answer in answers] == [len(image)] * 4
    assert felt.waited_at_most(1.0), felt.slowest_s


def hostile_pdfs() -> dict[str, bytes]:
    return {
        # Inflated, a content stream of 104 MB.
        "bomb": a_pdf(stream=b"BT (x) Tj ET\n" * 8_000_000),
        "pages": a_pdf(*["x"] * 501),
        "nesting": a_pdf(stream=b"[" * 1_000_000),
        "cycle": a_pdf("x").replace(b"/Kids [4 0 R]", b"/Kids [2 0 R]"),
        "own stream": a_pdf("x").replace(b"/Contents 5 0 R", b"/Contents 4 0 R"),
        "cut": a_pdf("x" * 10_000)[:300],
        "nothing to read": a_pdf(stream=b"0 0 100 100 re f"),
        "encrypted": a_pdf("x").replace(b"/Root 1 0 R", b"/Encrypt 1 0 R /Root 1 0 R"),
    }


async def test_pdfs_that_are_made_to_harm_end_soon_and_hold_nobody_up(tmp_path: Path) -> None:
    made = await asyncio.to_thread(hostile_pdfs)
    assert max(map(len, made.values())) < LARGE
    async with serving(cwd=tmp_path) as server, bystander(server.address, server.internal) as felt:
        async with plain_http(base_url=server.address + PREFIX, timeout=120) as http:
            answers = await asyncio.gather(*(upload(http, content, "a.pdf") for content in made.values()))
            taken = [kind for kind, answer in zip(made, answers, strict=True) if answer.status_code != 400]
            assert not taken
            assert (await upload(http, a_pdf("fine"), "b.pdf")).status_code == 201
    assert felt.waited_at_most(1.0), felt.slowest_s


async def test_pdfs_of_one_user_leave_room_for_those_of_others(tmp_path: Path) -> None:
    text = b"BT /F1 12 Tf 20 50 Td (slow) Tj ET"
    slow = await asyncio.to_thread(a_pdf, stream=b"0 0 m 9 9 l S\n" * 1_000_000 + text)
    async with running_server(tmp_path, settings={"limits": {"uploads_per_user": 4}}) as server:
        async with rest(server, "dev:ann") as ann, rest(server, "dev:bob") as bob:
            hers = [asyncio.create_task(upload(ann, slow, "a.pdf")) for _ in range(4)]
            # Then the others have arrived.
            await asyncio.wait(hers, return_when=asyncio.FIRST_COMPLETED)
            assert (await upload(bob, a_pdf("fine"), "b.pdf")).status_code == 201
            assert sum(task.done() for task in hers) < 3
            assert [answer.status_code for answer in await asyncio.gather(*hers)] == [201] * 4


@pytest.mark.parametrize("sides", [(2**31 - 1, 2**31 - 1), (50_000_001, 1), (65_535, 65_535)])
async def test_an_image_that_decodes_to_gigabytes_is_refused(sides: tuple[int, int], server: RunningServer) -> None:
    async with rest(server) as http:
        refused = await upload(http, a_png(*sides, pixels=b"\0" * 1_000), "a.png")
    assert refused.status_code == 400 and "pixels; at most 50,000,000" in error_of(refused)["content"]


@asynccontextmanager
async def half_uploaded(server: ServerProcess) -> AsyncIterator[asyncio.StreamWriter]:
    """An upload of which the end does not come."""
    host = httpx.URL(server.address)
    _, writer = await asyncio.open_connection(host.host, host.port)
    head = [
        f"POST {PREFIX}/attachments HTTP/1.1",
        f"Host: {host.host}:{host.port}",
        f"Content-Type: multipart/form-data; boundary={BOUNDARY}",
        f"Content-Length: {LARGE}",
    ]
    writer.write("\r\n".join([*head, "", ""]).encode() + part(b"y" * 5_000_000)[:4_000_000])
    await writer.drain()
    try:
        yield writer
    finally:
        writer.close()


async def left_in(directory: Path) -> list[Path]:
    """The files of attachments."""
    return await asyncio.to_thread(
        lambda: [path for path in directory.rglob("*") if "attachments" in path.parts and path.is_file()]
    )


async def test_a_killed_server_leaves_nothing_of_an_upload(tmp_path: Path) -> None:
    async with serving(cwd=tmp_path) as server:
        async with plain_http(base_url=server.address + PREFIX) as http, half_uploaded(server):
            whole = await uploaded(http, a_png())
            await server.stop(signal.SIGKILL)
    assert [path.name for path in await left_in(tmp_path)] == [whole["id"]]
    async with serving(cwd=tmp_path) as server, plain_http(base_url=server.address + PREFIX) as http:
        assert (await http.get(f"/attachments/{whole['id']}")).content == a_png()


async def test_what_a_dead_server_was_storing_goes_at_the_next_start(tmp_path: Path) -> None:
    async with serving(cwd=tmp_path) as server, plain_http(base_url=server.address + PREFIX) as http:
        shown = await uploaded(http, a_png())
        await server.stop(signal.SIGKILL)
    [kept] = await left_in(tmp_path)

    def as_in_the_middle() -> None:
        """As if the server had died before it kept the attachment."""
        kept.rename(kept.with_name(f"{kept.name}.part"))
        with closing(sqlite3.connect(kept.parents[2] / "chat.sqlite3")) as db, db:
            db.execute("UPDATE attachments SET state = 'written' WHERE id = ?", (shown["id"],))

    await asyncio.to_thread(as_in_the_middle)
    async with serving(cwd=tmp_path) as server, plain_http(base_url=server.address + PREFIX) as http:
        assert (await http.get(f"/attachments/{shown['id']}")).status_code == 404
        assert await left_in(tmp_path) == []


async def test_clients_that_leave_in_the_middle_leave_nothing(tmp_path: Path) -> None:
    async with serving(cwd=tmp_path) as server:
        for _ in range(5):
            async with half_uploaded(server):
                pass
        async with plain_http(base_url=server.address + PREFIX) as http:
            await uploaded(http, b"whole")
        assert len(await left_in(tmp_path)) == 1


async def test_what_is_read_of_small_pdfs_counts_too(tmp_path: Path) -> None:
    small = a_pdf(stream=b"BT /F1 12 Tf (" + b"x" * 9_000 + b") Tj ET")
    assert len(small) < 1_000
    async with running_server(tmp_path, settings={"limits": {"attachments_per_user_bytes": 20_000}}) as server:
        async with rest(server) as http:
            answers = [await upload(http, small, "a.pdf") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201, 201, 409]
    assert error_of(answers[-1])["code"] == "limit_reached"


async def test_where_no_file_can_be_made_an_upload_is_refused(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    refused = await post(server, part(b"x") + END)
    assert (refused.status_code, error_of(refused)["code"]) == (503, "store_unavailable")
