"""What applications read of files: their own documents, and what is attached in the sessions of their users."""

import asyncio
import io
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from support.attached_files import a_pdf, uploaded
from support.made_documents import a_docx, a_paragraph
from support.reading_application import Reading
from support.rest_client import PREFIX, error_of

from agentic_backend.application import (
    ApplicationSettings,
    ApplicationUnavailable,
    AttachmentNotFound,
    DocumentUnreadable,
    SessionNotFound,
    User,
)
from agentic_backend.stores.records import SessionRecord
from agentic_backend.testing import open_application

ANN, BOB = User("ann", "Ann"), User("bob", "Bob")


async def test_bytes_and_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.docx"
    await asyncio.to_thread(path.write_bytes, a_docx(a_paragraph("Größen", "Heading1")))
    async with open_application(Reading) as opened:
        read = opened.application.read_document
        assert (await read("a.md", b"# T")).blocks[0].kind == "heading"
        assert (await read("a.md", bytearray(b"# T"), user=ANN)).kind == "markdown"
        assert (await read("a", io.BytesIO(a_pdf("x")))).kind == "pdf"
        with await asyncio.to_thread(path.open, "rb") as file:
            # From its beginning, wherever its reader stands.
            await asyncio.to_thread(file.read, 10)
            assert (await read("a", file)).text == "# Größen"
        for name, data in (("a", b""), ("a", b"\0"), ("a.pdf", b"%PDF-1.5"), ("a", io.BytesIO())):
            with pytest.raises(DocumentUnreadable):
                await read(name, data)
        wrong: list[tuple[Any, Any]] = [(None, b"x"), ("a", "x"), ("a", None), ("a", 3), ("a", io.StringIO("x"))]
        for name, data in wrong:
            with pytest.raises(TypeError):
                await read(name, data)
    with pytest.raises(ApplicationUnavailable):
        await Reading(ApplicationSettings()).read_document("a", b"x")


async def test_a_file_that_is_unreadable_is_told_to_the_caller_in_words() -> None:
    async with open_application(Reading) as opened, opened.client("ann") as ann:
        assert (await ann.post("/texts", json={"text": "# T"})).json() == {"kind": "markdown"}
        refused = await ann.post("/texts", json={"text": "\x7fELF\xff"})
        assert (refused.status_code, error_of(refused)["code"]) == (422, "document_unreadable")
        assert "What is read is Markdown" in error_of(refused)["content"]


async def test_what_is_attached_is_listed_and_read_for_its_own_user_alone() -> None:
    async with open_application(Reading) as opened:
        transport = httpx.ASGITransport(opened.app.public)
        headers = {"authorization": "Bearer dev:ann"}
        address = f"http://127.0.0.1{PREFIX}"
        async with httpx.AsyncClient(base_url=address, transport=transport, headers=headers) as http:
            sent = [await uploaded(http, f"text {number}".encode(), f"{number}.txt") for number in range(25)]
            unsent = await uploaded(http, b"unsent")
        store, now, ids = opened.app.store, opened.app.store.now(), [each["id"] for each in sent]
        for session, root in (("trunk", None), ("branch", "trunk")):
            await store.create_session(
                SessionRecord(
                    id=session, root_id=root, user_id="ann", agent_id="a", title="", created_at=now, updated_at=now
                )
            )
        await store.attach(ids, "ann", "trunk")
        assert await opened.application.attachments(ANN, "branch") == await opened.application.attachments(ANN, "trunk")
        listed = await opened.application.attachments(ANN, "trunk")
        assert [each.id for each in listed] == ids
        assert [each.text_chars for each in listed] == [6] * 10 + [7] * 15
        assert await opened.application.read_attachment(ANN, sent[3]["id"]) == b"text 3"
        assert await opened.application.read_attachment(ANN, unsent["id"]) == b"unsent"
        for user, attachment in ((BOB, sent[3]["id"]), (ANN, uuid4().hex)):
            with pytest.raises(AttachmentNotFound):
                await opened.application.read_attachment(user, attachment)
        for user, asked in ((BOB, "trunk"), (ANN, "absent")):
            with pytest.raises(SessionNotFound):
                await opened.application.attachments(user, asked)
