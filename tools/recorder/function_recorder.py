"""Notes which functions of the product run while the tests of each file run, in all processes that the tests start.

`tools/tests_of.py record` starts pytest with this directory in PYTHONPATH, and with `recording_plugin`. Each function
of the product is compiled with a first statement that sets its byte in memory which is mapped from a file, one for each
file of tests. So what a process has run is known though the process is killed, and it runs hardly slower.
"""

import ast
import builtins
import contextlib
import importlib.machinery
import json
import mmap
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

NOTES = "FUNCTION_RECORDER_NOTES"
"""The directory of this recording: `index.json`; `ran/` with the bytes; `code/` with what is compiled."""
LANE = "FUNCTION_RECORDER_LANE"
"""The lane that this process works for; its file `lane.current` names the file whose tests run."""
_BYTES = "__ran__"
"""Where the compiled code finds the bytes: a builtin, which every module sees."""

_HERE = Path(__file__).parent


def functions(tree: ast.AST, within: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """All of a module with their qualified names, in the order of their numbers."""
    for child in ast.iter_child_nodes(tree):
        name = within
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{within}{child.name}."
            if not isinstance(child, ast.ClassDef):
                yield name[:-1], child
        yield from functions(child, name)


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles a module with the statements; what it has compiled is kept apart from other bytecode."""

    first: int

    def source_to_code(self, data: Any, path: Any, *, _optimization: int = -1) -> Any:
        tree = ast.parse(data)
        for number, (_, function) in enumerate(list(functions(tree)), self.first):
            place = int(ast.get_docstring(function, clean=False) is not None)
            [statement] = ast.parse(f"{_BYTES}[{number}] = 1").body
            for node in ast.walk(statement):
                ast.copy_location(node, function.body[0])
            function.body.insert(place, statement)
        return compile(tree, path, "exec", dont_inherit=True, optimize=_optimization)

    def exec_module(self, module: ModuleType) -> None:
        """Note nothing: whose tests run first while a module is imported is chance."""
        noted = getattr(builtins, _BYTES)
        setattr(builtins, _BYTES, bytearray(_size))
        try:
            super().exec_module(module)
        finally:
            setattr(builtins, _BYTES, noted)

    def get_data(self, path: str) -> bytes:
        return super().get_data(self._moved(path))

    def set_data(self, path: str, data: Any, *, _mode: int = 0o666) -> None:
        super().set_data(self._moved(path), data, _mode=_mode)

    def _moved(self, path: str) -> str:
        return str(_notes / "code" / f"{self.name}.pyc") if path.endswith(".pyc") else path


class _Finder:
    def __init__(self, index: dict[str, int]) -> None:
        self.index = index
        self._product = next(iter(index), "").partition("/")[0]

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        if name.partition(".")[0] != self._product:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and type(spec.loader) is importlib.machinery.SourceFileLoader:
            file = os.path.relpath(spec.loader.path, _root)
            if file in self.index:
                loader = _Loader(spec.loader.name, spec.loader.path)
                loader.first = self.index[file]
                spec.loader = loader
        return spec


_notes = Path()
_lane = ""
_root = ""
_size = 0


def begin() -> None:
    """Note what this process runs, if it belongs to a recording."""
    global _notes, _lane, _root, _size
    if NOTES not in os.environ:
        return
    _notes, _lane = Path(os.environ[NOTES]), os.environ.get(LANE, "")
    index = json.loads((_notes / "index.json").read_text())
    _root, _size = index["root"], index["size"]
    sys.meta_path.insert(0, _Finder(index["first"]))
    _turn()
    # The child of a fork server works for the file whose tests run now.
    os.register_at_fork(after_in_child=_turn)
    sys.addaudithook(_pass_on)


def work_for(lane: str) -> None:
    """Work in this lane, and so all processes that this one starts."""
    global _lane
    os.environ[LANE] = _lane = lane


def come_first() -> None:
    """Before the finder of pytest, which compiles the product too, as the package that its plugin belongs to."""
    sys.meta_path.sort(key=lambda finder: not isinstance(finder, _Finder))


def turn_to(file: str) -> Path:
    """Note for this file of tests from now on, in all processes of the lane; return where. "" is none."""
    ran = _notes / "ran" / file
    if file:
        ran.parent.mkdir(parents=True, exist_ok=True)
        with ran.open("ab") as opened:
            opened.truncate(_size)
    (_notes / f"{_lane}.current").write_text(file)
    _turn()
    return ran


def _turn() -> None:
    """Note for the file whose tests run in this lane."""
    ran: Any = bytearray(_size)
    # Else no test runs, or the recording has ended.
    with contextlib.suppress(OSError), (_notes / "ran" / (_notes / f"{_lane}.current").read_text()).open("r+b") as file:
        ran = mmap.mmap(file.fileno(), _size)
    setattr(builtins, _BYTES, ran)


def _pass_on(event: str, arguments: tuple[Any, ...]) -> None:
    """Record a process too whose environment a test has made itself."""
    if event == "subprocess.Popen" and isinstance(environment := arguments[3], dict):
        environment |= {NOTES: str(_notes), LANE: _lane}
        paths = [*filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
        # Last: a test may have a `sitecustomize` of its own. The checkout: else the product may be an installed one.
        environment["PYTHONPATH"] = os.pathsep.join([*paths, *({str(_HERE), _root} - {*paths})])
