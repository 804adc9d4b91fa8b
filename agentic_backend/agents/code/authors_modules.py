"""AuthorsModules: the Python modules of agents' authors, and how those whose files have changed are imported again.

An author's module comes from a source file that is not the product's, Python's or an installed package's. Changed
modules are put aside together with those that import them, and the next import makes new ones. Nothing is executed in
a module that exists: what runs keeps the code that it began with, and if an import fails, the old modules are put back
as they were.
"""

import ast
import contextlib
import importlib
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import cache_from_source, resolve_name
from pathlib import Path
from types import ModuleType

from agentic_backend.disclosure.exception_detail import is_authors
from agentic_backend.syntax_tree import parsed

Stamp = tuple[int, int, int] | None
"""What changes if a file is saved, in place or by a rename: its time, size and inode; None if it is not there."""


def stamp_of(file: str | Path) -> Stamp:
    try:
        found = os.stat(file)
    # The latter for a name that no file can have.
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


@dataclass(frozen=True, slots=True)
class PutAside:
    """Modules that are imported anew when they are next asked for. Ends with `put_back` or `forget`."""

    owner: "AuthorsModules"
    modules: Mapping[str, ModuleType]
    """Those that were put aside, by name."""
    stamps: Mapping[str, Stamp]
    """Those of all authors' modules, by file, from before the new imports."""
    known: frozenset[str]
    """The names of all authors' modules from before."""

    def put_back(self) -> None:
        """Have the old modules again, and none of those that were imported since."""
        for name in [name for name, _ in _loaded() if name not in self.known]:
            del sys.modules[name]
        for name, module in self.modules.items():
            sys.modules[name] = module
        for name, module in self.modules.items():
            parent, _, child = name.rpartition(".")
            if parent in sys.modules:
                setattr(sys.modules[parent], child, module)

    def forget(self) -> None:
        """The new modules stay."""
        self.owner.noted(self.stamps)


class AuthorsModules:
    """Not for two threads at once."""

    def __init__(self) -> None:
        self._stamps: dict[str, Stamp] = {}
        """The stamps of the files as they were imported, by file."""
        self._noted_at = 0
        """When they were noted, in nanoseconds since 1970."""

    @property
    def files(self) -> set[Path]:
        """The files of the modules as far as `noted` knows them."""
        return {Path(file) for file in self._stamps}

    def noted(self, before: Mapping[str, Stamp] | None = None) -> None:
        """All modules that are there have been imported from their files as they are now or, if there, in `before`."""
        self._noted_at = time.time_ns()
        self._stamps = {file: (before or {}).get(file, stamp_of(file)) for _, file in _loaded()}

    def put_aside(self) -> PutAside:
        """Put those aside whose files have changed, and those that import them."""
        loaded = dict(_loaded())
        stamps = {file: stamp_of(file) for file in loaded.values()}
        changed = {name for name, file in loaded.items() if self._has_changed(file, stamps[file])}
        modules = {name: sys.modules[name] for name in _with_dependents(changed, loaded)}
        for name in modules:
            del sys.modules[name]
        for name in changed:
            _forget_compiled(loaded[name])
        importlib.invalidate_caches()
        return PutAside(self, modules, stamps, frozenset(loaded))

    def _has_changed(self, file: str, stamp: Stamp) -> bool:
        if file not in self._stamps:
            # It was imported after the others, by code that runs.
            return stamp is not None and stamp[0] > self._noted_at
        return self._stamps[file] != stamp


def _loaded() -> Iterator[tuple[str, str]]:
    """The names and files of the authors' modules."""
    # A copy is made in one step. A list of items is not: each item is a new object, so the garbage collector may run in
    # between, and other threads, which import.
    for name, module in sys.modules.copy().items():
        # Not as an attribute: a module may import others when it is asked for one, or raise.
        file = getattr(module, "__dict__", {}).get("__file__")
        if name == "__main__" or name.partition(".")[0] == "agentic_backend" or not isinstance(file, str):
            continue
        if file.endswith(".py") and is_authors(file):
            yield name, file


def _forget_compiled(file: str) -> None:
    """Remove what Python has compiled of a source file: it tells the source's size, and its time in seconds, so of two
    saves in one second it may show the first. What can't be removed was not written by this process either.
    """
    with contextlib.suppress(OSError, NotImplementedError):
        os.unlink(cache_from_source(file))


def _with_dependents(changed: Iterable[str], files: Mapping[str, str]) -> set[str]:
    """The changed modules, and those that import one of them, also by way of others."""
    found = set(changed)
    if not found:
        return found
    imported = {name: set(_imports_of(name, file)) for name, file in files.items()}
    while more := {name for name in files if name not in found and imported[name] & found}:
        found |= more
    return found


def _imports_of(name: str, file: str) -> Iterator[str]:
    """The names of what a module imports, as far as its source says so, and of the packages that it is in."""
    yield from _parents(name)
    is_package = Path(file).name == "__init__.py"
    package = name if is_package else name.rpartition(".")[0]
    try:
        tree = parsed(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        # It has changed, or it is gone: it is among the changed ones itself.
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
                yield from _parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            try:
                base = resolve_name("." * node.level + (node.module or ""), package)
            except ImportError:
                continue
            yield base
            yield from _parents(base)
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _parents(name: str) -> Iterator[str]:
    while name := name.rpartition(".")[0]:
        yield name
