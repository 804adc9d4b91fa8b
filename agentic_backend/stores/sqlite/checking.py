"""Checks a SQLite file, beside a server that may use it: see stores/checking."""

import os
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from agentic_backend.config.checks import CheckFailed
from agentic_backend.stores.rows import PROOF_BYTES
from agentic_backend.stores.schema import SchemaTooNew
from agentic_backend.stores.sqlite.applications.application_records import kinds_of_records
from agentic_backend.stores.sqlite.migrations import MIGRATIONS
from agentic_backend.stores.tables import SESSION_APPLICATION_RECORDS

_CHANGE = "check store.url, data.directory, and who may write there"


def check_file(file: Path, limit_s: float) -> str:
    """Blocks. What was found, in words. Raises CheckFailed."""
    with _failures(file):
        return _check_file(file, limit_s) if file.exists() else _check_directory(file)


def kinds_in_file(file: Path, limit_s: float) -> Mapping[str, int]:
    """Blocks. See stores/checking."""
    with _failures(file):
        if not file.exists():
            return {}
        with closing(_connected(file, limit_s)) as db:
            # Who has never opened it with this release has no such table yet.
            there = {name for (name,) in db.execute("SELECT name FROM sqlite_schema")}
            return kinds_of_records(db) if SESSION_APPLICATION_RECORDS.name in there else {}


@contextmanager
def _failures(file: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise CheckFailed(f"{file}: {error}", _CHANGE) from error
    except OSError as error:
        raise CheckFailed(f"{error.filename or file}: {error.strerror}", _CHANGE) from error


def is_up_to_date(file: Path, limit_s: float) -> bool:
    """Blocks. Whether opening the file migrates nothing. Raises sqlite3.Error."""
    with closing(_connected(file, limit_s)) as db:
        return _version(db) >= len(MIGRATIONS)


def _check_file(file: Path, limit_s: float) -> str:
    with closing(_connected(file, limit_s)) as db:
        version = _version(db)
        if version > len(MIGRATIONS):
            raise CheckFailed(str(SchemaTooNew(version, len(MIGRATIONS))))
        # The table of the server's own proofs (see prove_write), in a row of ours.
        db.execute("CREATE TABLE IF NOT EXISTS write_proofs (id INTEGER PRIMARY KEY, filler BLOB NOT NULL) STRICT")
        db.execute("INSERT OR REPLACE INTO write_proofs VALUES (?, randomblob(?))", (os.getpid(), PROOF_BYTES))
        db.execute("DELETE FROM write_proofs WHERE id = ?", (os.getpid(),))
    migrates = "" if version == len(MIGRATIONS) else f", which the server migrates to {len(MIGRATIONS)}"
    return f"opened; schema version {version}{migrates}; a write was made and removed"


def _connected(file: Path, limit_s: float) -> sqlite3.Connection:
    address = f"file:{quote(str(file.resolve()))}?mode=rw"
    return sqlite3.connect(address, uri=True, timeout=limit_s, isolation_level=None)


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _check_directory(file: Path) -> str:
    there = next(parent for parent in file.absolute().parents if parent.exists())
    with tempfile.TemporaryFile(dir=there) as proof:
        proof.write(os.urandom(PROOF_BYTES))
        proof.flush()
        os.fsync(proof.fileno())
    return f"{file} is not there yet, the server makes it; {there} takes files"
