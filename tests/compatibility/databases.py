"""Databases that a release has written, as text: a SQLite file as SQL, a MongoDB as JSON lines.

`databases/VERSION` has `chat.sql` with `attachments/` beside it, `chat.jsonl`, and for each the `ids` and the `reads`
(see contents) that the release's own server answered, in `sqlite.json` and `mongodb.json`.
"""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from bson import json_util
from compatibility.transcripts import Json
from pymongo import MongoClient

FOLDER = Path(__file__).parent / "databases"
_FILE, _ATTACHMENTS = "chat.sqlite3", "attachments"
# Of the release's processes, which are gone.
_NOT_KEPT = ("instances", "chores", "write_proofs")


def recorded(version: str, kind: str) -> Json:
    """The `ids`, the `left` and the `reads` of a recorded database; `kind` is `sqlite` or `mongodb`."""
    found: Json = json.loads((FOLDER / version / f"{kind}.json").read_text())
    return found


def write_recorded(folder: Path, kind: str, told: Json) -> None:
    (folder / f"{kind}.json").write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")


def dump_sqlite(data: Path, folder: Path) -> None:
    with closing(sqlite3.connect(data / _FILE)) as db:
        version = db.execute("PRAGMA user_version").fetchone()[0]
        lines = [f"PRAGMA user_version = {version};", *db.iterdump()]
    (folder / "chat.sql").write_text("\n".join(lines) + "\n")
    shutil.copytree(data / _ATTACHMENTS, folder / _ATTACHMENTS, dirs_exist_ok=True)


def restore_sqlite(version: str, data: Path) -> None:
    """Write the recorded file and its attachments into `data`."""
    data.mkdir(exist_ok=True)
    with closing(sqlite3.connect(data / _FILE)) as db:
        db.executescript((FOLDER / version / "chat.sql").read_text())
    shutil.copytree(FOLDER / version / _ATTACHMENTS, data / _ATTACHMENTS)


def dump_mongodb(url: str, folder: Path) -> None:
    with MongoClient[Json](url) as client:
        database = client.get_default_database()
        lines = []
        for name in sorted(set(database.list_collection_names()) - set(_NOT_KEPT)):
            there = database[name].index_information().values()
            indexes = [(list(each["key"]), each.get("unique", False)) for each in there]
            made = [{"keys": keys, "unique": unique} for keys, unique in indexes if keys != [("_id", 1)]]
            lines.append({"collection": name, "indexes": made})
            lines += [{"collection": name, "document": each} for each in database[name].find()]
    (folder / "chat.jsonl").write_text("".join(json_util.dumps(line) + "\n" for line in lines))


def restore_mongodb(version: str, url: str) -> None:
    """Write the recorded collections with their indexes into the empty database at `url`."""
    text = (FOLDER / version / "chat.jsonl").read_text()
    lines: list[dict[str, Any]] = [json_util.loads(line) for line in text.splitlines()]
    with MongoClient[Json](url) as client:
        database = client.get_default_database()
        for line in lines:
            collection = database[line["collection"]]
            if "document" in line:
                collection.insert_one(line["document"])
            else:
                for index in line["indexes"]:
                    collection.create_index([tuple(key) for key in index["keys"]], unique=bool(index["unique"]))
