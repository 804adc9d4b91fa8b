"""Files of Office: archives of XML, whose bounds are looked at before anything of them is unpacked."""

import io
import zipfile
import zlib
from typing import Literal

from agentic_backend.extraction.kinds import Refused, neither

MOST_ENTRIES = 10_000
MOST_UNPACKED = 256 * 1024 * 1024
"""Bytes of all that is in a file."""
MOST_RATIO = 200
"""How many times as large as the file its content may be, beyond what is small anyway."""

_SMALL = 16 * 1024 * 1024
_CONTENT_TYPES = "[Content_Types].xml"
_MOST_OF_TYPES = 1024 * 1024
_MAIN: tuple[tuple[bytes, Literal["docx", "xlsx"]], ...] = (
    (b"wordprocessingml.document.main+xml", "docx"),
    (b"ms-word.document.macroEnabled.main+xml", "docx"),
    (b"wordprocessingml.template.main+xml", "docx"),
    (b"spreadsheetml.sheet.main+xml", "xlsx"),
    (b"ms-excel.sheet.macroEnabled.main+xml", "xlsx"),
    (b"spreadsheetml.template.main+xml", "xlsx"),
)
_OTHERS = (
    (b"presentationml", "a presentation is not read; export it as PDF"),
    (b"ms-excel.sheet.binary", "a binary workbook (.xlsb) is not read; save it as XLSX"),
)


def office_kind(data: bytes) -> Literal["docx", "xlsx"]:
    """Which of both the archive is. Raises Refused if it is neither, or unpacks to more than may be."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            _refuse_bomb(archive.infolist(), len(data))
            names = set(archive.namelist())
            if _CONTENT_TYPES not in names:
                odf = "mimetype" in names and b"opendocument" in archive.read("mimetype")[:200]
                raise neither("a file of OpenDocument is not read; save it as DOCX or XLSX" if odf else "an archive")
            with archive.open(_CONTENT_TYPES) as types:
                told = types.read(_MOST_OF_TYPES)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, EOFError, OSError, NotImplementedError, ValueError):
        raise Refused("the file is damaged: it is an archive that can't be unpacked") from None
    except RuntimeError:
        raise Refused("the file is encrypted: remove its password first") from None
    for mark, kind in _MAIN:
        if mark in told:
            return kind
    for mark, words in _OTHERS:
        if mark in told:
            raise neither(words)
    raise neither("an archive")


def _refuse_bomb(entries: list[zipfile.ZipInfo], size: int) -> None:
    # What an entry says here is all that is unpacked of it.
    unpacked = sum(each.file_size for each in entries)
    is_dense = unpacked > _SMALL and unpacked > MOST_RATIO * size
    if len(entries) > MOST_ENTRIES or unpacked > MOST_UNPACKED or is_dense:
        raise Refused("the file unpacks to more than is read")
    if any(each.flag_bits & 0x1 for each in entries):
        raise Refused("the file is encrypted: remove its password first")
