"""The commands that put folders of the disk into collections, beside a server or without one."""

import asyncio
import signal
import sys
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from agentic_backend.application import AgenticError, BadFrame, DocumentUnreadable, MessageTooLarge, User
from agentic_backend.applications.retrieval.chunking.chunks import chunks_of
from agentic_backend.applications.retrieval.intake.archives import Archive, Unreadable, is_archive
from agentic_backend.applications.retrieval.intake.folders import Folder
from agentic_backend.applications.retrieval.intake.intake import MOST_FILE_BYTES, name_of
from agentic_backend.applications.retrieval.intake.report import Report, told
from agentic_backend.applications.retrieval.library import StoredCollection

if TYPE_CHECKING:
    from agentic_backend.applications.retrieval.application import Retrieval

_LOOK_S, _AGAIN_S = 1.0, 5.0
"""How long watching rests between two looks at a folder, and after one that failed."""
_READ_LOOK_S, _READ_AGAIN_LOOKS, _LOOKED_AT_ONCE = 0.2, 300, 200
"""How long ingesting rests between two looks at documents that are read, how many of these pass until others that no
instance works on are looked for, and at how many documents each looks.
"""


class FolderCommands:
    def __init__(self, application: "Retrieval") -> None:
        self._application = application

    async def ingest(
        self,
        directory: Path,
        *,
        collection: str,
        user: User,
        delete: bool = False,
        embedding: str | None = None,
        yes: bool = False,
    ) -> None:
        """Put the files of a folder into a user's collection, which is made if there is none with this title.

        It ends when all of them are read and embedded, here or by a server. What is there already is left, so it goes
        on where it stopped. With --delete, documents that came from this folder and whose files are gone are removed.
        Links that lead out of the folder are left out. With --embedding the collection's documents are embedded by this
        model of the settings. What that takes is told, and asked about unless --yes is given; where the collection has
        such a model already, too. The exit status is 1 if a file could not be put or read.
        """
        folder = self._folder(directory)
        names = await folder.look()
        before = await self._collection(collection, user)
        model = embedding or (None if before is None else before.value.embedding)
        if model is not None:
            await self._confirm(before, model, folder, names, yes=yes)
        library = self._application.library
        into = before or await library.add(user, collection, None, model)
        if into.value.embedding != model:
            into = await library.change(into, collection, into.value.shared_with, model)
        report = Report(len(names))
        for each in await folder.remove_gone(into) if delete else ():
            report.tell(each)
        for name in names:
            report.next()
            for each in await folder.put(into, name):
                report.tell(each)
        await self._until_read(report)
        report.end()
        if report.has_failed:
            sys.exit(1)

    async def watch(self, directory: Path, *, collection: str, user: User) -> None:
        """Keep a user's collection as a folder is, beside a server or without one, until this is stopped.

        A file that is new or changed is put within some seconds, and what is removed from the folder is found by no
        question any more. Documents that came from elsewhere stay. Links that lead out of the folder are left out.
        """
        folder, library = self._folder(directory), self._application.library
        into = await self._collection(collection, user) or await library.add(user, collection, None)
        stopped = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
        problem = None
        while not stopped.is_set():
            try:
                names = await folder.look()
                await library.own(user, into.key)
                for each in await folder.remove_gone(into):
                    print(told(each), flush=True)
                for name in names:
                    for each in await folder.put(into, name):
                        print(told(each), flush=True)
                    if stopped.is_set():
                        return
                problem = None
            except (AgenticError, OSError) as error:
                # The store or the folder is away, for example: what is left is done when that has passed.
                before, problem = problem, error.content if isinstance(error, AgenticError) else error.strerror
                if problem != before:
                    print(problem, file=sys.stderr, flush=True)
            with suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), _LOOK_S if problem is None else _AGAIN_S)

    def _folder(self, directory: Path) -> Folder:
        """Raises OSError."""
        return Folder(self._application.intake, self._application.documents, directory)

    async def _collection(self, title: str, user: User) -> StoredCollection | None:
        """The user's own with this title. Raises StoreUnavailable."""
        readable = await self._application.library.readable(user)
        return next((each for each in readable if each.value.title == title), None)

    async def _until_read(self, report: Report) -> None:
        """Wait until none of its documents is to be read here any more."""
        documents, ingestion = self._application.documents, self._application.ingestion
        again_at = _READ_AGAIN_LOOKS
        while some := dict(islice(report.waiting.items(), _LOOKED_AT_ONCE)):
            report.read(some, await documents.several(some), ingestion.left_to_servers)
            again_at -= 1
            if again_at == 0:
                # Another instance may have been at it, and be gone.
                await ingestion.find_work()
                again_at = _READ_AGAIN_LOOKS
            await asyncio.sleep(_READ_LOOK_S)

    async def _confirm(
        self, collection: StoredCollection | None, model: str, folder: Folder, names: list[str], *, yes: bool
    ) -> None:
        """Tell what it takes to embed these files, and what is there already if that is embedded anew; ask about it.

        Raises SystemExit if the answer is no, and BadFrame if there is no such model.
        """
        embedders, documents = self._application.embedders, self._application.documents
        embedders.require(model)
        is_other = collection is not None and collection.value.embedding != model
        sizes = await documents.sizes(collection) if collection is not None and is_other else []
        for number, name in enumerate(names, start=1):
            print(f"{number}/{len(names)} read for the estimate")
            try:
                with await folder.open(name) as file:
                    sizes += await self._sizes(collection, name, file)
            except OSError:
                # It is told where it is put.
                continue
        told = (await embedders.estimate(model, sizes)).told
        print(f"To be sent to the embedding model '{model}':", ", ".join(f"{key} {told[key]}" for key in told))
        if not yes and not await asyncio.to_thread(_agreed):
            sys.exit(1)

    async def _sizes(self, collection: StoredCollection | None, name: str, file: BinaryIO) -> list[int]:
        """The bytes of text that are embedded of a file, or of each in an archive; none of what is there already, or
        can't be read. Raises OSError.
        """
        try:
            if not is_archive(called := name_of(name)):
                return await self._size(collection, called, file)
            archive = await asyncio.to_thread(Archive, called, file)
        except (BadFrame, MessageTooLarge):
            return []
        sizes: list[int] = []
        try:
            for entry in archive.entries:
                if entry.reason is None:
                    with suppress(BadFrame, Unreadable):
                        inner = name_of(f"{called}/{entry.name}")
                        with await asyncio.to_thread(entry.unpacked) as unpacked:
                            sizes += await self._size(collection, inner, unpacked)
        finally:
            archive.close()
        return sizes

    async def _size(self, collection: StoredCollection | None, name: str, file: BinaryIO) -> list[int]:
        size = await asyncio.to_thread(file.seek, 0, 2)
        if size > MOST_FILE_BYTES:
            return []
        if collection is not None and await self._application.documents.has(collection, name, file):
            return []
        file.seek(0)
        try:
            read = await self._application.read_document(name, file)
        except DocumentUnreadable:
            return []
        chunks = await asyncio.to_thread(chunks_of, read)
        return [sum(len(chunk.text.encode(errors="replace")) for chunk in chunks)]


def _agreed() -> bool:
    """What whoever runs the command says; no where there is nobody."""
    try:
        return input("Go on? [y/N] ").strip().casefold() in ("y", "yes")
    except EOFError:
        return False
