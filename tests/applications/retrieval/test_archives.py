"""Archives: each file in them is a document, what is none of theirs is left out, and none unpacks without bounds."""

import gzip
import io
import os
import stat
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from pytest import mark
from support.collections_of_documents import FLOOD, LEAVE, collection, found, settled
from support.rest_client import error_of

from agentic_backend.application import BadFrame, MessageTooLarge
from agentic_backend.applications.retrieval.intake import archives, intake
from agentic_backend.applications.retrieval.intake.archives import Archive, Unreadable

pytestmark = mark.asyncio(loop_scope="module")


def zipped(files: dict[str, bytes], packed: int = zipfile.ZIP_DEFLATED) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", packed) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return content.getvalue()


def tarred(files: dict[str, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=form) as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return content.getvalue()


def packed_tar(files: dict[str, bytes]) -> bytes:
    return gzip.compress(tarred(files))


async def put(client: httpx.AsyncClient, collection_id: str, name: str, content: bytes) -> dict[str, Any]:
    answer = await client.post(f"/collections/{collection_id}/documents", files={"file": (name, content)})
    assert answer.status_code == 202, answer.text
    told: dict[str, Any] = answer.json()
    return told


def reasons(name: str, content: bytes) -> dict[str, str | None]:
    """Why each file of an archive is left out, if it is."""
    told = {}
    for entry in Archive(name, io.BytesIO(content)).entries:
        told[entry.name] = entry.reason
        if entry.reason is None:
            try:
                entry.unpacked().close()
            except Unreadable as error:
                told[entry.name] = str(error)
    return told


@mark.parametrize("name, packing", [("a.zip", zipped), ("a.tar", tarred), ("A.TGZ", packed_tar)])
async def test_each_file_of_an_archive_is_a_document(
    ann: httpx.AsyncClient, name: str, packing: Callable[[dict[str, bytes]], bytes]
) -> None:
    terms = await collection(ann, "Terms")
    deep = "/".join(["a long folder"] * 20) + "/leave.md"
    told = await put(ann, terms, name, packing({"flood.md": FLOOD.encode(), deep: LEAVE.encode()}))
    assert {each["name"] for each in told["documents"]} == {f"{name}/flood.md", f"{name}/{deep}"}
    assert {*(await settled(ann, terms))} == {f"{name}/flood.md", f"{name}/{deep}"}
    assert (await found(ann, terms, "groundwater"))[0]["name"] == f"{name}/flood.md"


async def test_another_version_of_an_archive_takes_the_place_of_what_came_of_the_one_before(
    ann: httpx.AsyncClient,
) -> None:
    terms = await collection(ann, "Terms", other=LEAVE)
    before = {"flood.md": FLOOD.encode(), "leave.md": LEAVE.encode()}
    await put(ann, terms, "a.zip", zipped(before))
    editions = {name: each["id"] for name, each in (await settled(ann, terms)).items()}
    told = await put(ann, terms, "a.zip", zipped({"leave.md": LEAVE.encode(), "new.md": b"# New"}))
    assert told["removed"] == ["a.zip/flood.md"]
    # What has not changed is not read again.
    assert {each["name"]: each["state"] for each in told["documents"]}["a.zip/leave.md"] == "ready"
    assert not await found(ann, terms, "groundwater")
    assert {*(await settled(ann, terms))} == {"other.md", "a.zip/leave.md", "a.zip/new.md"}
    assert editions["a.zip/leave.md"] == (await settled(ann, terms))["a.zip/leave.md"]["id"]


async def test_what_is_left_out_of_an_archive_is_told(ann: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "MOST_FILE_BYTES", 1_000)
    terms = await collection(ann, "Terms")
    files = {"a.zip": zipped({"b.md": b"b"}), "large.md": b"a" * 1_001, "n" * 600: b"n", "__MACOSX/._leave.md": b"\0"}
    content = zipped({**files, "leave.md": b"# Leave"})
    told = await put(ann, terms, "a.zip", content)
    assert {each["name"][:15]: each["reason"] for each in told["left_out"]} == {
        "a.zip/a.zip": "it is an archive within an archive",
        "a.zip/large.md": "it has more than 1,000 bytes",
        "a.zip/nnnnnnnnn": "its path is too long",
    }
    assert {*(await settled(ann, terms))} == {"a.zip/leave.md"}


async def test_a_document_that_is_a_zip_is_no_archive(ann: httpx.AsyncClient) -> None:
    terms = await collection(ann, "Terms")
    [document] = (await put(ann, terms, "a.docx", zipped({"a.md": b"a"})))["documents"]
    assert document["name"] == "a.docx"


async def test_an_archive_that_is_damaged_or_too_large_leaves_what_was_there(
    ann: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    terms = await collection(ann, "Terms")
    await put(ann, terms, "a.zip", zipped({"leave.md": LEAVE.encode()}))
    path, many = f"/collections/{terms}/documents", zipped({"a.md": b"a", "b.md": b"b", "c.md": b"c"})
    assert error_of(await ann.post(path, files={"file": ("a.zip", many[:-30])}))["code"] == "bad_frame"
    monkeypatch.setattr(archives, "MOST_FILES", 2)
    assert error_of(await ann.post(path, files={"file": ("a.zip", many)}))["code"] == "message_too_large"
    assert {*(await settled(ann, terms))} == {"a.zip/leave.md"}


async def test_no_path_leads_out_of_an_archive() -> None:
    names = ["../a.md", "b/../../a.md", "/a.md", "..\\a.md", "C:\\a.md", "C:a.md"]
    for name, packing in (("a.zip", zipped), ("a.tar", tarred)):
        told = reasons(name, packing({**dict.fromkeys(names, b"a"), "b/..a.md": b"b"}))
        assert {each for each, reason in told.items() if reason == "its path leads out of the archive"} == {*names}
        assert told["b/..a.md"] is None


async def test_links_and_devices_in_archives_are_left_out() -> None:
    link, pipe = zipfile.ZipInfo("link"), zipfile.ZipInfo("pipe")
    link.create_system = pipe.create_system = 3
    link.external_attr, pipe.external_attr = (stat.S_IFLNK | 0o777) << 16, (stat.S_IFIFO | 0o666) << 16
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.mkdir("folder")
        for each in (link, pipe):
            archive.writestr(each, "/etc/hostname")
    assert reasons("a.zip", content.getvalue()) == {"link": "it is a link", "pipe": "it is no plain file"}
    content = io.BytesIO()
    kinds = {"link": tarfile.SYMTYPE, "hard": tarfile.LNKTYPE, "device": tarfile.CHRTYPE, "folder": tarfile.DIRTYPE}
    with tarfile.open(fileobj=content, mode="w") as tar:
        for name, kind in kinds.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, "/etc/hostname"
            tar.addfile(entry)
    told = {"link": "it is a link", "hard": "it is a link", "device": "it is no plain file"}
    assert reasons("a.tar", content.getvalue()) == told


async def test_what_is_encrypted_damaged_or_packed_otherwise_says_so() -> None:
    content = bytearray(zipped({"a.md": b"aaaa", "b.md": b"bbbb"}, zipfile.ZIP_STORED))
    # The flag of the first entry in the directory; the content of the second one.
    content[content.index(b"PK\1\2") + 8] |= 1
    content[content.index(b"bbbb")] = ord("c")
    assert reasons("a.zip", bytes(content)) == {"a.md": "it is encrypted", "b.md": "it is damaged"}
    otherwise = zipped({"a.md": b"a"}, zipfile.ZIP_LZMA)
    assert reasons("a.zip", otherwise) == {"a.md": "it is packed in a way that is not read"}
    assert reasons("a.tar", tarred({"a.md": b"a" * 4_096})[:2_048]) == {"a.md": "it is damaged"}


@mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
async def test_tar_files_are_read_as_they_are_written(form: int) -> None:
    names = ["a.md", f"{'folder/' * 18}{'b' * 90}.md"] + ([] if form == tarfile.USTAR_FORMAT else ["ü" * 200])
    files = {name: os.urandom(size) for name, size in zip(names, (0, 512, 1_500), strict=False)}
    entries = Archive("a.tar", io.BytesIO(tarred(files, form))).entries
    contents = {}
    for each in entries:
        with each.unpacked() as file:
            file.seek(0)
            contents[each.name] = file.read()
    assert contents == files


async def test_names_are_read_that_do_not_say_how_they_are_written() -> None:
    content = zipped({"grün.md": b"a"})
    # The version, then the flag that says so.
    unsaid = content.replace(b"\x14\x00\x00\x08", b"\x14\x00\x00\x00")
    assert unsaid != content and [*reasons("a.zip", unsaid)] == ["grün.md"]


def _sized(content: bytes, size: str) -> bytes:
    """A tar file whose first entry says to have this size, as twelve characters."""
    header = bytearray(content[:512])
    header[124:136] = size.encode()
    header[148:156] = b" " * 8
    header[148:156] = f"{sum(header):06o}\0 ".encode()
    return bytes(header) + content[512:]


_MANY = zipped({f"{number}.md": b"" for number in range(2_001)}, zipfile.ZIP_STORED)
TOO_LARGE = {
    "dense.zip": lambda: zipped({"a.md": bytes(20 << 20)}),
    "dense.tgz": lambda: gzip.compress(tarred({"a.md": bytes(20 << 20)})),
    "many.zip": lambda: _MANY,
    "many.tar": lambda: tarred({f"{number}.md": b"" for number in range(2_001)}),
    "large.tar": lambda: _sized(tarred({"a.md": b"a"}), "77777777777 "),
    # The size of the directory.
    "directory.zip": lambda: (_MANY[:-10] + (3 << 20).to_bytes(4, "little") + _MANY[-6:]).rjust(4 << 20, b"\0"),
    "header.tar": lambda: tarred({"a" * (65 << 10): b"a"}, tarfile.GNU_FORMAT),
}


@mark.parametrize("name", TOO_LARGE)
async def test_an_archive_has_bounds(name: str) -> None:
    with pytest.raises(MessageTooLarge):
        Archive(name, io.BytesIO(TOO_LARGE[name]()))


async def test_an_archive_has_bounds_whatever_its_own_size_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MOST_UNPACKED", 2_000)
    content = zipped({"a.md": b"a" * 1_000, "b.md": b"b" * 1_001}, zipfile.ZIP_STORED)
    with pytest.raises(MessageTooLarge):
        Archive("a.zip", io.BytesIO(content))


async def test_headers_before_a_file_take_no_room_whatever_their_number_is() -> None:
    headers = []
    for first in range(0, 40_000, 4_000):
        entry = tarfile.TarInfo("a.md")
        entry.pax_headers = {str(first + number): "" for number in range(4_000)}
        # Without the file's own.
        headers.append(entry.tobuf(tarfile.PAX_FORMAT)[:-512])
    content = io.BytesIO(b"".join([*headers, tarred({"a.md": b"a"})]))
    tracemalloc.start()
    try:
        entries = Archive("a.tar", content).entries
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [each.name for each in entries] == ["a.md"] and most < 2 << 20


NO_ARCHIVES = {
    "other.zip": lambda: b"no archive",
    "other.tar": lambda: b"no archive" * 100,
    "other.tgz": lambda: b"no archive",
    "cut-off.tgz": lambda: packed_tar({"a.md": b"a"})[:-20],
    "negative.tar": lambda: _sized(tarred({"a.md": b"a"}), "-1000000000 "),
    "header.tar": lambda: tarred({"ü" * 200: b"a"}).replace(b" path=", b" path "),
}


@mark.parametrize("name", NO_ARCHIVES)
async def test_what_is_no_archive_is_refused(name: str) -> None:
    with pytest.raises(BadFrame):
        Archive(name, io.BytesIO(NO_ARCHIVES[name]()))
