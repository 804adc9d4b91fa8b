"""Folders: what is new or changed in a folder of the disk is put into a collection, and what is gone is removed.

Nothing outside of the folder is read: links that lead out of it are left out, and so are folders that are links.
"""

import asyncio
import errno
import os
import stat
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from agentic_backend.application import BadFrame, LimitReached, MessageTooLarge, RecordConflict
from agentic_backend.applications.retrieval.documents import Documents
from agentic_backend.applications.retrieval.intake.intake import Intake, Outcome, shown_name
from agentic_backend.applications.retrieval.library import StoredCollection

MOST_FILES = 10_000
"""As many as the documents of a person."""

_Version = tuple[int, int, int, int]
"""What tells one content of a file from another, without reading it."""
_Directory = tuple[int, int]
"""What tells one directory from another that takes its place."""


class Folder:
    def __init__(self, intake: Intake, documents: Documents, directory: Path) -> None:
        """Raises OSError if there is no such folder."""
        self._intake = intake
        self._documents = documents
        self._root = directory.resolve(strict=True)
        self._source = sha256(os.fsencode(self._root)).hexdigest()[:32]
        self._here: dict[str, _Version] | None = None
        """The files by their paths in it, as they were when it was last looked at."""
        self._put: dict[str, _Version] = {}
        self._is_whole, self._is_swept = False, False
        self._directory: _Directory | None = None
        """The one in which there were files when it was last looked at."""
        self._is_emptied = False

    async def look(self) -> list[str]:
        """The files that are to be put: at first all, then those that have changed, and are written no more.

        Raises OSError if the folder is away, and LimitReached.
        """
        before = self._here
        here, self._is_whole, directory = await asyncio.to_thread(_files_below, self._root)
        self._here = here
        if here:
            self._directory = directory
        self._is_emptied = directory == self._directory
        self._is_swept = self._is_swept and before is not None and before.keys() <= here.keys()
        self._put = {name: version for name, version in self._put.items() if name in here}
        return [
            name
            for name, version in here.items()
            if self._put.get(name) != version and (before is None or before.get(name) == version)
        ]

    async def open(self, name: str) -> BinaryIO:
        """One of its files. Raises OSError."""
        return await asyncio.to_thread(_opened, self._root, self._root / name)

    async def put(self, into: StoredCollection, name: str) -> list[Outcome]:
        """Put one of its files into a collection, as it was looked at. Raises LimitReached and StoreUnavailable."""
        version = (self._here or {})[name]
        try:
            with await self.open(name) as file:
                outcomes = await self._intake.put(into, name, file, self._source)
        except (BadFrame, MessageTooLarge) as error:
            outcomes = [Outcome(shown_name(name), reason=error.content)]
        except RecordConflict as error:
            # It is tried again when the folder is looked at again.
            return [Outcome(shown_name(name), reason=error.content, has_failed=True)]
        except OSError as error:
            outcomes = [Outcome(shown_name(name), reason=f"it can't be read ({error.strerror})", has_failed=True)]
        self._put[name] = version
        return outcomes

    async def remove_gone(self, into: StoredCollection) -> list[Outcome]:
        """Remove the collection's documents that came from this folder, and whose files are not there any more.

        Nothing is removed where a part of the folder could not be looked at. Raises OSError if all would go, and nobody
        has seen how the folder became empty: what was mounted there may be away.
        """
        if self._is_swept or not self._is_whole:
            return []
        here = {shown_name(name.replace("\\", "/")) for name in self._here or {}}
        gone = [
            each
            async for each in self._documents.each_of(into)
            if each.value.source == self._source and not _is_of(here, each.value.name)
        ]
        if gone and not here and not self._is_emptied:
            raise OSError(errno.ENODATA, "The folder is empty, so nothing that came from it is removed.")
        outcomes = [await self._intake.remove(each) for each in gone]
        self._is_swept = True
        return outcomes


def _is_of(files: set[str], name: str) -> bool:
    """Whether a document is one of these files, or of an archive among them."""
    return name in files or any(str(each) in files for each in PurePosixPath(name).parents)


def _files_below(root: Path) -> tuple[dict[str, _Version], bool, _Directory]:
    """The files below a folder, by their paths in it, whether all of it could be looked at, and which directory it is.

    Raises OSError, also where a part of its path has become a link.
    """
    if root.resolve(strict=True) != root:
        raise OSError(errno.ELOOP, "A part of the folder's path has become a link.")
    there = root.stat()
    files: dict[str, _Version] = {}
    failed: list[OSError] = []
    os.scandir(root).close()
    for folder, _, names in os.walk(root, onerror=failed.append):
        for name in names:
            path = Path(folder, name)
            try:
                if path.is_symlink() and not path.resolve().is_relative_to(root):
                    continue
                told = path.stat()
            except (OSError, RuntimeError):
                # It has just gone, or is a link to nothing, or to itself.
                continue
            if stat.S_ISREG(told.st_mode):
                files[path.relative_to(root).as_posix()] = told.st_mtime_ns, told.st_ctime_ns, told.st_size, told.st_ino
            if len(files) > MOST_FILES:
                raise LimitReached(f"The folder has more than {MOST_FILES:,} files.")
    return dict(sorted(files.items())), not failed, (there.st_dev, there.st_ino)


def _opened(root: Path, path: Path) -> BinaryIO:
    """Raises OSError, also for what has become a link out of the folder meanwhile, or a pipe, which nobody may fill."""
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))
    try:
        there = path.resolve(strict=True)
        if not there.is_relative_to(root) or not os.path.samestat(os.lstat(there), os.fstat(file.fileno())):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    except BaseException:
        file.close()
        raise
    return file
