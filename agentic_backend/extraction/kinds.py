"""What a file is: by its content first, and by its name where the content can't tell. Pure."""

from pathlib import PurePosixPath
from typing import NamedTuple

from agentic_backend.extraction.document import DocumentKind

TAKEN = "Markdown, text, source code, CSV, HTML, PDF, DOCX and XLSX"
EXTRA = "agentic-backend[documents]"
"""What has to be installed for the kinds whose libraries are large."""

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_PDF_BEGINS_BY = 1024
_HTML_BEGINS_BY = 4096
# Of files that are no text, though their first bytes may be.
_BINARY = (
    (b"\x89PNG", "an image"),
    (b"GIF8", "an image"),
    (b"\xff\xd8\xff", "an image"),
    (b"BM", "an image"),
    (b"II*\0", "an image"),
    (b"MM\0*", "an image"),
    (b"\x1f\x8b", "an archive"),
    (b"7z\xbc\xaf'\x1c", "an archive"),
    (b"Rar!\x1a\x07", "an archive"),
    (b"\xfd7zXZ\0", "an archive"),
    (b"(\xb5/\xfd", "an archive"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3\0", "a database"),
    (b"{\\rtf", "an RTF file"),
    (b"%!PS", "a PostScript file"),
)
_OF_NAMES: dict[str, DocumentKind] = {
    "md": "markdown",
    "markdown": "markdown",
    "mkd": "markdown",
    "csv": "csv",
    "tsv": "csv",
    "tab": "csv",
    "html": "html",
    "htm": "html",
    "xhtml": "html",
}
_LANGUAGES = {
    "py": "python", "pyi": "python", "js": "javascript", "mjs": "javascript", "cjs": "javascript",
    "jsx": "javascript", "ts": "typescript", "tsx": "typescript", "java": "java", "kt": "kotlin", "kts": "kotlin",
    "scala": "scala", "groovy": "groovy", "c": "c", "h": "c", "cc": "cpp", "cpp": "cpp", "cxx": "cpp", "hpp": "cpp",
    "cs": "csharp", "go": "go", "rs": "rust", "rb": "ruby", "php": "php", "swift": "swift", "m": "objective-c",
    "r": "r", "jl": "julia", "lua": "lua", "pl": "perl", "pm": "perl", "hs": "haskell", "ml": "ocaml", "ex": "elixir",
    "exs": "elixir", "erl": "erlang", "clj": "clojure", "dart": "dart", "zig": "zig", "sql": "sql", "sh": "bash",
    "bash": "bash", "zsh": "bash", "ps1": "powershell", "bat": "batch", "css": "css", "scss": "scss", "vue": "vue",
    "svelte": "svelte", "xml": "xml", "svg": "xml", "xsd": "xml", "json": "json", "jsonl": "json", "yaml": "yaml",
    "yml": "yaml", "toml": "toml", "ini": "ini", "cfg": "ini", "tf": "hcl", "proto": "protobuf", "graphql": "graphql",
    "tex": "latex", "diff": "diff", "patch": "diff", "f90": "fortran", "vb": "vbnet", "asm": "asm",
}  # fmt: skip
_LANGUAGES_OF_WHOLE_NAMES = {"dockerfile": "dockerfile", "makefile": "makefile", "cmakelists.txt": "cmake"}


class Refused(Exception):
    """Why a file is not read, in words for whoever has sent it."""


class Named(NamedTuple):
    """What a name says of a file that is a text."""

    kind: DocumentKind
    language: str | None = None


def named(name: str) -> Named:
    path = PurePosixPath(name.replace("\0", "").replace("\\", "/").lower())
    ending = path.suffix.removeprefix(".")
    if kind := _OF_NAMES.get(ending):
        return Named(kind)
    language = _LANGUAGES_OF_WHOLE_NAMES.get(path.name) or _LANGUAGES.get(ending)
    return Named("code", language) if language else Named("text")


def is_pdf(head: bytes) -> bool:
    return b"%PDF-" in head[:_PDF_BEGINS_BY]


def refuse_binary(data: bytes) -> None:
    """Raises Refused if this is a file of another format that is known, which `is_pdf` and ZIP are not for."""
    if data.startswith(OLE):
        if "EncryptedPackage".encode("utf-16-le") in data:
            raise Refused("the file is encrypted: remove its password first")
        raise Refused("this is a file of an old Office, such as .doc or .xls: save it as DOCX, XLSX or PDF first")
    for beginning, what in _BINARY:
        if data.startswith(beginning) and (len(beginning) > 2 or b"\0" in data[:512]):
            raise neither(f"{what} is not read")


def neither(why: str = "") -> Refused:
    return Refused(f"this is a file of a kind that is not read{why and f': {why}'}. What is read is {TAKEN}")


def is_html(text: str) -> bool:
    """Whether a text begins as a page of HTML does, after comments and declarations."""
    rest = text[:_HTML_BEGINS_BY].lstrip("\ufeff \t\r\n").lower()
    while True:
        end = _end_of_preamble(rest)
        if end is None:
            break
        rest = rest[end:].lstrip()
    return rest.startswith(("<!doctype html", "<html>", "<html ", "<html\n", "<head>", "<body>", "<body "))


def _end_of_preamble(rest: str) -> int | None:
    for begin, end in (("<!--", "-->"), ("<?xml", "?>")):
        if rest.startswith(begin):
            place = rest.find(end, len(begin))
            return None if place < 0 else place + len(end)
    return None
