"""LinkedFiles: the page's directory as it is served: few files, read, linked and compressed once in a process.

At the start the files are read, no more. Modules are read for what they import once one is asked for, which takes some
200 ms in a thread: a server whose page nobody opens doesn't pay for it. Then each file is linked and compressed, at its
first request. Nothing is read again, so a change of the directory shows after a restart.
"""

import asyncio
import mimetypes
import re
from functools import cached_property, lru_cache
from hashlib import blake2b
from pathlib import Path
from threading import Lock

from agentic_backend.transports.page.encoded_file import EncodedFile
from agentic_backend.transports.page.index import Index
from agentic_backend.transports.page.linker import Linker

STYLESHEET = "style.css"

_MAP = ".map"
# Comments, and what is before a line.
_CSS_FILLING = re.compile(rb"/\*.*?\*/|(?<=\n)\s+", re.DOTALL)


class LinkedFiles:
    """Paths are relative to the page's directory. Raises LinkError if its document is not as expected."""

    def __init__(self, directory: Path) -> None:
        found = sorted(path for path in directory.rglob("*") if path.is_file())
        self._sources = {path.relative_to(directory).as_posix(): path.read_bytes() for path in found}
        self.index = Index.read(self._sources["index.html"].decode())
        self._made: dict[str, EncodedFile] = {}
        """Each file that was asked for, and its source map: at most two for each file of the directory."""
        self._making = Lock()
        """One thread makes a file that several ask for."""

    @property
    def version(self) -> bytes:
        """A hash over all files."""
        digest = blake2b()
        for path, content in self._sources.items():
            digest.update(b"%s\0%d\0%s" % (path.encode(), len(content), content))
        return digest.digest()

    async def get(self, path: str) -> EncodedFile | None:
        """The file at `path`, None if there is none. A module of the page is linked with what it needs.

        Raises LinkError if that can't be done.
        """
        if path not in self._made and path.removesuffix(_MAP) in self._sources:
            await asyncio.to_thread(self._make, path)
        return self._made.get(path)

    def _make(self, path: str) -> None:
        with self._making:
            if path in self._made:
                return
            module = path.removesuffix(_MAP)
            if path == STYLESHEET:
                style = b"\n".join(self._sources[each] for each in self.index.stylesheets)
                self._made[path] = EncodedFile.of(_CSS_FILLING.sub(b"", style), "text/css")
            elif module.endswith(".js") and module not in self.index.scripts:
                self._link(module)
            elif path in self._sources:
                media_type = mimetypes.guess_type(path)[0] or "application/octet-stream"
                self._made[path] = EncodedFile.of(self._sources[path], media_type)

    @cached_property
    def _linker(self) -> Linker:
        return Linker(self._sources, self.index.entry)

    def _link(self, path: str) -> None:
        linked = self._linker.link(path)
        self._made[path] = EncodedFile.of(linked.code, "text/javascript")
        self._made[path + _MAP] = EncodedFile.of(linked.source_map, "application/json")


@lru_cache(maxsize=2)
def linked_files(directory: Path) -> LinkedFiles:
    """The files of `directory`; the first call in a process reads them."""
    return LinkedFiles(directory)
