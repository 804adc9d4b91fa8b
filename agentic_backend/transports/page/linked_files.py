"""LinkedFiles: the page's directory as it is served: few files, read, linked and compressed once in a process.

The files that the page begins with are made at the start; a module that it loads later is linked at its first request.
Nothing is read again, so a change of the directory shows after a restart.
"""

import asyncio
import mimetypes
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

from agentic_backend.transports.page.encoded_file import EncodedFile
from agentic_backend.transports.page.index import Index
from agentic_backend.transports.page.linker import Linker

STYLESHEET = "style.css"

_MAP = ".map"


class LinkedFiles:
    """Paths are relative to the page's directory. Raises LinkError."""

    def __init__(self, directory: Path) -> None:
        found = sorted(path for path in directory.rglob("*") if path.is_file())
        self._sources = {path.relative_to(directory).as_posix(): path.read_bytes() for path in found}
        self.index = Index.read(self._sources["index.html"].decode())
        self._linker = Linker(self._sources, self.index.entry)
        # Each file that was asked for, and its source map: at most two for each file of the directory.
        self._made: dict[str, EncodedFile] = {}
        self._link(self.index.entry)
        style = b"\n".join(self._sources[path] for path in self.index.stylesheets)
        self._made[STYLESHEET] = EncodedFile.of(style, "text/css")

    @property
    def version(self) -> bytes:
        """A hash over all files."""
        digest = blake2b()
        for path, content in self._sources.items():
            digest.update(b"%s\0%d\0%s" % (path.encode(), len(content), content))
        return digest.digest()

    async def get(self, path: str) -> EncodedFile | None:
        """The file at `path`, None if there is none. A module of the page is linked with what it needs."""
        if path not in self._made and path.removesuffix(_MAP) in self._sources:
            await asyncio.to_thread(self._make, path)
        return self._made.get(path)

    def _make(self, path: str) -> None:
        if path.removesuffix(_MAP).endswith(".js"):
            self._link(path.removesuffix(_MAP))
        elif path in self._sources:
            media_type = mimetypes.guess_type(path)[0] or "application/octet-stream"
            self._made[path] = EncodedFile.of(self._sources[path], media_type)

    def _link(self, path: str) -> None:
        linked = self._linker.link(path)
        self._made[path] = EncodedFile.of(linked.code, "text/javascript")
        self._made[path + _MAP] = EncodedFile.of(linked.source_map, "application/json")


@lru_cache(maxsize=2)
def linked_files(directory: Path) -> LinkedFiles:
    """The files of `directory`, made some 150 ms after the first call in this process."""
    return LinkedFiles(directory)
