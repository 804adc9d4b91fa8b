"""Prints what a file says, as a program of its own: `python -I program.py '{"name": …, "characters": …}' < FILE`.

A file is a program for what reads it: it may take any time and memory, and make a library do anything. So each is read
apart from the server, within limits that the operating system keeps. What it is, and its encoding, is found first; from
the moment at which it is parsed no descriptor can be opened: no socket, no file. The answer is one line of JSON and the
text (`document.packed`), or JSON with the reason `refused`. With `"page": 3` it draws this page of a PDF instead: one
line of JSON and a PNG (`page_image.packed_image`).
"""

import importlib
import json
import logging
import os
import resource
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
_OUT_OF_BOUNDS = "takes too much time or memory to be read"
_LABELS = {"pdf": "PDF", "docx": "DOCX file", "xlsx": "workbook", "html": "HTML page", "csv": "table"}
# Large packages that the libraries use if they are there, and that nothing here needs.
_LEFT_OUT = ("numpy", "PIL", "pandas", "defusedxml")
# What the standard library and the libraries import where they need it first.
_LATE = (
    *(f"encodings.{name}" for name in ("ascii", "cp437", "latin_1", "utf_16", "utf_16_be", "utf_16_le", "utf_8_sig")),
    *("calendar", "copy", "heapq", "_strptime", "unicodedata", "xml.dom.expatbuilder", "zlib"),
)
_DEEPEST = 3_000


def main(asked: dict[str, Any]) -> bytes:
    """What to print. Never raises an Exception: a broken file makes libraries raise anything."""
    label = "file"
    try:
        _stand_back()
        _limit(asked["memory_bytes"], asked["cpu_s"])
        _find_ourselves()
        from agentic_backend.extraction.document import packed
        from agentic_backend.extraction.kinds import Refused

        try:
            data = sys.stdin.buffer.read()
            if "page" in asked:
                label = "PDF"
                draw = _image_of_pdf(data, asked["page"])
                _close_descriptors()
                return draw()
            kind, read = _reader(data, asked)
            label = _LABELS.get(kind, "text")
            _close_descriptors()
            return packed(read())
        except Refused as refused:
            return _refused(str(refused))
    except MemoryError:
        return _refused(f"the {label} {_OUT_OF_BOUNDS}")
    except Exception:
        return _refused(f"the {label} can't be read")


def _find_ourselves() -> None:
    """Import this package as it lies here, whatever else is installed, and nothing in place of Python's own modules."""
    installed = (number for number, path in enumerate(sys.path) if path.endswith("-packages"))
    sys.path.insert(next(installed, len(sys.path)), str(_ROOT))


def _refused(words: str) -> bytes:
    return json.dumps({"refused": words}).encode()


def _stand_back() -> None:
    """Leave the processor to the server first, and be ended before it where memory runs out."""
    os.nice(10)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")


def _limit(memory_bytes: int, cpu_s: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    sys.setrecursionlimit(_DEEPEST)
    for name in _LEFT_OUT:
        sys.modules[name] = None  # type: ignore[assignment]


def _close_descriptors() -> None:
    """Have nothing opened any more, neither by Python nor by a library in C: no file, no socket, no pipe.

    Nor is there another process, but for root.
    """
    for name in _LATE:
        importlib.import_module(name)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))


def _reader(data: bytes, asked: dict[str, Any]) -> tuple[str, Callable[[], Any]]:
    """The kind of the file, and what reads it, with all that it will import. Raises Refused."""
    from agentic_backend.extraction import kinds

    if kinds.is_pdf(data):
        return "pdf", _of_pdf(data, asked)
    if data.startswith(kinds.ZIP):
        return _of_office(data, asked)
    kinds.refuse_binary(data)
    return _of_text(data, asked)


def _of_pdf(data: bytes, asked: dict[str, Any]) -> Callable[[], Any]:
    try:
        from agentic_backend.extraction.readers.pdf import read_pdf
    except ImportError:
        raise _needs_extra("PDF") from None
    return lambda: read_pdf(data, asked["pages"], asked["characters"])


def _image_of_pdf(data: bytes, number: int) -> Callable[[], bytes]:
    from agentic_backend.extraction.kinds import Refused, is_pdf
    from agentic_backend.extraction.page_image import packed_image

    if not is_pdf(data):
        raise Refused("only a PDF has pages")
    try:
        from agentic_backend.extraction.readers.pdf_image import draw_page
    except ImportError:
        raise _needs_extra("PDF") from None
    return lambda: packed_image(draw_page(data, number))


def _of_office(data: bytes, asked: dict[str, Any]) -> tuple[str, Callable[[], Any]]:
    from agentic_backend.extraction.readers.office import office_kind

    kind, characters = office_kind(data), asked["characters"]
    if kind == "docx":
        try:
            from agentic_backend.extraction.readers.docx import read_docx
        except ImportError:
            raise _needs_extra("DOCX") from None
        return kind, lambda: read_docx(data, characters)
    try:
        from agentic_backend.extraction.readers.workbook import read_workbook
    except ImportError:
        raise _needs_extra("XLSX") from None
    return kind, lambda: read_workbook(data, characters)


def _of_text(data: bytes, asked: dict[str, Any]) -> tuple[str, Callable[[], Any]]:
    from agentic_backend.extraction import encodings, kinds

    encodings.load_encodings(data)
    told, characters = kinds.named(asked["name"]), asked["characters"]
    page = encodings.page_in(data, is_named=told.kind == "html")
    if page is not None:
        return "html", _of_page(page, characters)
    # A character has four bytes at most, and a mark may precede them.
    if len(data) > 4 * characters + 4:
        raise kinds.Refused(f"the text has more than {characters:,} characters")
    text = encodings.text_in(data)
    if len(text) > characters:
        raise kinds.Refused(f"the text has {len(text):,} characters; at most {characters:,} are read")
    if not text.strip():
        raise kinds.Refused("the file has no text")
    if told.kind == "csv":
        from agentic_backend.extraction.readers.delimited import read_delimited

        return "csv", lambda: read_delimited(text, characters)
    if told.kind == "markdown":
        from agentic_backend.extraction.readers.markdown import read_markdown

        return "markdown", lambda: read_markdown(text)
    from agentic_backend.extraction.readers.plain import read_code, read_text

    if told.kind == "code":
        return "code", lambda: read_code(text, told.language)
    return "text", lambda: read_text(text)


def _of_page(page: str, characters: int) -> Callable[[], Any]:
    try:
        from agentic_backend.extraction.readers.html import read_html
    except ImportError:
        raise _needs_extra("HTML") from None
    # All that is imported where it is needed first.
    read_html(f"<html><body><h1>a</h1><p>{'b ' * 1_000}</p><table><tr><td>c</td></tr></table></body></html>", 10_000)
    return lambda: read_html(page, characters)


def _needs_extra(what: str) -> Exception:
    from agentic_backend.extraction.kinds import EXTRA, Refused

    return Refused(f"{what} is not read here: the server needs {EXTRA} for it")


if __name__ == "__main__":
    answer = main(json.loads(sys.argv[1]))
    sys.stdout.buffer.write(answer)
    sys.stdout.buffer.flush()
    # Without taking down what libraries have built, which may take as long as reading.
    os._exit(0)
