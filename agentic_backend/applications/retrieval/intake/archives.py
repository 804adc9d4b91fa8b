"""Archives: the files in a ZIP or a tar file, within bounds.

An archive is known by its name, as DOCX, XLSX and JAR are ZIPs too, of which each is one document. Whoever has made it
may mean harm: what it says of itself is looked at before anything is unpacked, a path never leads out of it, and what
is no plain file is left out. Tar files are read here, as the standard library's reader can be kept busy without end.
"""

import errno
import gzip
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from tempfile import TemporaryFile
from typing import BinaryIO

from agentic_backend.application import BadFrame, MessageTooLarge

MOST_FILES = 2_000
MOST_UNPACKED = 256 << 20
"""In bytes, of all files together."""
MOST_RATIO = 200
"""How many times as large as the archive its files may be, beyond what is small anyway."""

_SMALL, _AT_ONCE = 16 << 20, 1 << 20
_MOST_OF_DIRECTORY, _MOST_OF_HEADER = 2 << 20, 64 << 10
_ZIP, _TAR, _PACKED_TAR = ".zip", ".tar", (".tar.gz", ".tgz")
_IS_ABSOLUTE = re.compile(r"[/\\]|[A-Za-z]:")
_BLOCK = 512
_DAMAGED = "it is damaged"


class Unreadable(Exception):
    """A file of an archive can't be unpacked, for this reason."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file in an archive."""

    name: str
    """Its path in the archive."""
    size: int
    """In bytes, unpacked."""
    reason: str | None
    """Why it is left out, if it is."""
    pieces: Callable[[], Iterator[bytes]]

    def unpacked(self) -> BinaryIO:
        """A file with its content, which has no name on the disk. Raises Unreadable."""
        file = TemporaryFile()
        try:
            with _damage_told():
                file.writelines(self.pieces())
        except BaseException:
            file.close()
            raise
        return file


def is_archive(name: str) -> bool:
    return name.lower().endswith((_ZIP, _TAR, *_PACKED_TAR))


class Archive:
    def __init__(self, name: str, file: BinaryIO) -> None:
        """Look through the archive in `file`. Raises BadFrame if it is damaged, and MessageTooLarge."""
        self._opened = ExitStack()
        file.seek(0, 2)
        size = file.tell()
        file.seek(0)
        try:
            with _damage_told():
                # As in tar files, to which new versions are added, the last one of a name counts.
                self.entries = list({each.name: each for each in self._read(name.lower(), file, size)}.values())
        except Unreadable:
            self.close()
            raise BadFrame("file: expected an archive that is whole, as its name says") from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._opened.close()

    def _read(self, name: str, file: BinaryIO, size: int) -> Iterator[Entry]:
        if name.endswith(_PACKED_TAR):
            file = self._opened.enter_context(_inflated(file, size))
        count = unpacked = 0
        for entry in _zip_entries(file) if name.endswith(_ZIP) else _tar_entries(file):
            count, unpacked = count + 1, unpacked + entry.size
            if count > MOST_FILES:
                raise MessageTooLarge(f"The archive has more than {MOST_FILES:,} files.")
            _require_bounds(unpacked, size)
            yield entry


def _require_bounds(unpacked: int, size: int) -> None:
    if unpacked > MOST_UNPACKED or (unpacked > _SMALL and unpacked > MOST_RATIO * size):
        raise MessageTooLarge(
            f"The archive unpacks to more than {MOST_UNPACKED:,} bytes, or to more than {MOST_RATIO} times its size."
        )


@contextmanager
def _damage_told() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # A place that can't be, or no such format; else the disk is full, for example.
        if error.errno not in (None, errno.EINVAL):
            raise
        raise Unreadable(_DAMAGED) from None
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, OverflowError, NotImplementedError, RuntimeError):
        raise Unreadable(_DAMAGED) from None


def _reason_against(name: str, kind: int) -> str | None:
    """Why a file of this name, and of this kind as `stat` has them, is left out."""
    if stat.S_ISLNK(kind):
        return "it is a link"
    if not stat.S_ISREG(kind):
        return "it is no plain file"
    if _IS_ABSOLUTE.match(name) or ".." in name.replace("\\", "/").split("/"):
        return "its path leads out of the archive"
    return "it is an archive within an archive" if is_archive(name) else None


# --- ZIP.


class _Sparing:
    """A file of which not much is read at once: the directory of an archive is, whatever size it says to have."""

    def __init__(self, file: BinaryIO) -> None:
        self.seek, self.tell, self._read = file.seek, file.tell, file.read

    def read(self, size: int = -1, /) -> bytes:
        if size > _MOST_OF_DIRECTORY:
            raise MessageTooLarge("The directory of the archive is too large.")
        return self._read(size)

    def seekable(self) -> bool:
        return True


def _zip_entries(file: BinaryIO) -> Iterator[Entry]:
    archive = zipfile.ZipFile(_Sparing(file))
    for each in archive.infolist():
        if each.is_dir():
            continue
        name, is_unix = _name_in_zip(each), each.create_system == 3
        # Others have no such kinds.
        reason = _reason_against(name, (stat.S_IFMT(each.external_attr >> 16) if is_unix else 0) or stat.S_IFREG)
        if reason is None and each.flag_bits & 0x1:
            reason = "it is encrypted"
        if reason is None and each.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            reason = "it is packed in a way that is not read"
        yield Entry(name, each.file_size, reason, partial(_pieces_in_zip, archive, each))


def _name_in_zip(entry: zipfile.ZipInfo) -> str:
    if entry.flag_bits & 0x800:
        return entry.filename
    try:
        # Many write UTF-8 without saying so.
        return entry.filename.encode("cp437").decode()
    except UnicodeError:
        return entry.filename


def _pieces_in_zip(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    # It gives no more than the size that the entry says.
    with archive.open(entry) as content:
        while piece := content.read(_AT_ONCE):
            yield piece


# --- Tar: ustar, and the names and sizes of GNU and POSIX.

_KINDS = {b"0": stat.S_IFREG, b"\0": stat.S_IFREG, b"7": stat.S_IFREG, b"1": stat.S_IFLNK, b"2": stat.S_IFLNK}
_DIRECTORY, _LONG_NAME, _LONG_LINK, _EXTENDED, _GLOBAL = b"5", b"L", b"K", b"x", b"g"


@contextmanager
def _inflated(file: BinaryIO, size: int) -> Iterator[BinaryIO]:
    """What is in a gzip file. Raises MessageTooLarge as soon as it is too much."""
    with TemporaryFile() as inflated, gzip.GzipFile(fileobj=file) as packed:
        # Beside its files an archive has their headers, and is filled up at its end.
        headers = MOST_FILES * 4 * _BLOCK
        while piece := packed.read(_AT_ONCE):
            inflated.write(piece)
            _require_bounds(inflated.tell() - headers, size)
        yield inflated


def _tar_entries(file: BinaryIO) -> Iterator[Entry]:
    place, extended, is_sparse = 0, dict[str, str](), False
    while True:
        file.seek(place)
        header = file.read(_BLOCK)
        if place > 0 and not header.strip(b"\0"):
            return
        _require_sum(header)
        kind, begins = header[156:157], place + _BLOCK
        name, size = extended.get("path") or _name_in(header), int(extended.get("size") or _number(header[124:136]))
        if size < 0:
            raise ValueError("no size")
        place = begins + -(-size // _BLOCK) * _BLOCK
        if kind in (_LONG_NAME, _LONG_LINK, _EXTENDED, _GLOBAL):
            if size > _MOST_OF_HEADER:
                raise MessageTooLarge("A header of the archive is too large.")
            # Of all files it says nothing that matters here.
            told = file.read(size)
            if kind == _LONG_NAME:
                extended["path"] = _text_of(told)
            elif kind == _EXTENDED:
                # There may be any number of others, before one file too.
                records = _extended_of(told)
                extended |= {key: records[key] for key in ("path", "size") if key in records}
                is_sparse = is_sparse or any(key.startswith("GNU.sparse") for key in records)
            continue
        file_kind = stat.S_IFBLK if is_sparse else _KINDS.get(kind, stat.S_IFBLK)
        extended, is_sparse = {}, False
        # Long ago a directory was a file whose name ends so.
        if kind == _DIRECTORY or name.endswith("/"):
            continue
        reason = _reason_against(name, file_kind)
        yield Entry(name, size, reason, partial(_pieces_in, file, begins, size))


def _require_sum(header: bytes) -> None:
    if len(header) < _BLOCK or sum(header[:148]) + sum(header[156:]) + 8 * ord(" ") != _number(header[148:156]):
        raise ValueError("no header of a tar file")


def _number(field: bytes) -> int:
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    return int(field.strip(b" \0") or b"0", 8)


def _name_in(header: bytes) -> str:
    name = _text_of(header[:100])
    prefix = _text_of(header[345:500]) if header[257:263] == b"ustar\0" else ""
    return f"{prefix}/{name}" if prefix else name


def _text_of(field: bytes) -> str:
    return field.partition(b"\0")[0].decode(errors="replace")


def _extended_of(told: bytes) -> dict[str, str]:
    """Records such as `30 path=…`, each with its own length."""
    records, place = dict[str, str](), 0
    while place < len(told):
        length = told[place : place + 8].partition(b" ")[0]
        ends = place + int(length)
        key, has_value, value = told[place + len(length) + 1 : ends - 1].partition(b"=")
        if ends <= place or not has_value:
            raise ValueError("no record")
        records[key.decode(errors="replace")] = value.decode(errors="replace")
        place = ends
    return records


def _pieces_in(file: BinaryIO, place: int, size: int) -> Iterator[bytes]:
    while size > 0:
        file.seek(place)
        piece = file.read(min(size, _AT_ONCE))
        if not piece:
            raise EOFError
        place, size = place + len(piece), size - len(piece)
        yield piece
