"""Intake: puts files into collections, each as one document, and an archive as the files in it."""

import asyncio
import os
from dataclasses import dataclass
from typing import BinaryIO

from agentic_backend.application import BadFrame, MessageTooLarge, RecordConflict
from agentic_backend.applications.retrieval.documents import Documents, StoredDocument
from agentic_backend.applications.retrieval.ingestion import Ingestion
from agentic_backend.applications.retrieval.intake.archives import Archive, Entry, Unreadable, is_archive
from agentic_backend.applications.retrieval.library import StoredCollection

MOST_FILE_BYTES = 64 << 20
"""Of one file: no more is read."""
_LONGEST_NAME = 500
_OTHERS = "somebody else puts it"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a file."""

    name: str
    document: StoredDocument | None = None
    """None if it was left out."""
    is_new: bool = False
    """Whether it has another content than what was there."""
    reason: str | None = None
    """Why it was left out."""
    has_failed: bool = False
    """Whether it was to be put, and could not be."""
    is_removed: bool = False


class Intake:
    def __init__(self, documents: Documents, ingestion: Ingestion) -> None:
        self._documents = documents
        self._ingestion = ingestion

    async def put(self, into: StoredCollection, name: str, file: BinaryIO, source: str | None = None) -> list[Outcome]:
        """Put a file into a collection, in the place of what came of one with this name; it is read afterwards.

        `source` is the folder that it is from. Of an archive each file is put, and what is not in it any more is
        removed; if that breaks off, the rest is put when the archive is put again.

        Raises BadFrame, MessageTooLarge, LimitReached, and RecordConflict if somebody else puts it.
        """
        called = name_of(name)
        if is_archive(called):
            archive = await asyncio.to_thread(Archive, called, file)
            try:
                return await self._put_archive(into, called, archive, source)
            finally:
                archive.close()
        if await asyncio.to_thread(file.seek, 0, os.SEEK_END) > MOST_FILE_BYTES:
            raise MessageTooLarge(f"The file has more than {MOST_FILE_BYTES:,} bytes.")
        return [await self._put_file(into, called, file, source)]

    async def remove(self, document: StoredDocument) -> Outcome:
        """Remove a document: from now on nothing of it is found."""
        await self._documents.remove(document)
        self._ingestion.add_removed(document)
        return Outcome(document.value.name, is_removed=True)

    async def _put_file(self, into: StoredCollection, name: str, file: BinaryIO, source: str | None) -> Outcome:
        stored, is_new = await self._documents.put(into, name, file, source)
        if stored.value.state == "waiting":
            self._ingestion.add(stored)
        return Outcome(name, stored, is_new)

    async def _put_archive(
        self, into: StoredCollection, name: str, archive: Archive, source: str | None
    ) -> list[Outcome]:
        outcomes = [
            await self._put_entry(into, f"{name}/{entry.name}", entry, source)
            for entry in archive.entries
            # What the archiver of macOS adds to what people have put there.
            if not entry.name.startswith("__MACOSX/")
        ]
        here = {each.name for each in outcomes if each.document is not None or each.reason == _OTHERS}
        gone = [
            await self.remove(each)
            async for each in self._documents.each_of(into)
            if each.value.name not in here and (each.value.name == name or each.value.name.startswith(f"{name}/"))
        ]
        return [*outcomes, *gone]

    async def _put_entry(self, into: StoredCollection, name: str, entry: Entry, source: str | None) -> Outcome:
        """Put one file of an archive, unless it can't be; others are."""
        reason = entry.reason
        if reason is None and entry.size > MOST_FILE_BYTES:
            reason = f"it has more than {MOST_FILE_BYTES:,} bytes"
        try:
            if reason is None:
                called = name_of(name)
                with await asyncio.to_thread(entry.unpacked) as file:
                    return await self._put_file(into, called, file, source)
        except BadFrame:
            reason = "its path is too long"
        except Unreadable as error:
            reason = str(error)
        except RecordConflict:
            reason = _OTHERS
        return Outcome(shown_name(name), reason=reason)


def name_of(name: str) -> str:
    """The name of a document: a path without `..`, as the file's sender has it, in which people see each character.

    Raises BadFrame.
    """
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
    if not parts or ".." in parts:
        raise BadFrame("name: expected the path of a file below the collection")
    path = _printable("/".join(parts))
    if len(path) > _LONGEST_NAME:
        raise BadFrame(f"name: expected at most {_LONGEST_NAME} characters")
    return path


def shown_name(name: str) -> str:
    """A name that may be none of a document, as people are told it."""
    return _printable(name)[:_LONGEST_NAME]


def _printable(name: str) -> str:
    return "".join(letter if letter.isprintable() else "_" for letter in name)
