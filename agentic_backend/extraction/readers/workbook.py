"""XLSX: a table for each sheet that people see, of values and not of formulas."""

import io
from datetime import date, datetime, time, timedelta
from typing import Any

import openpyxl

from agentic_backend.extraction.document import Document
from agentic_backend.extraction.kinds import Refused
from agentic_backend.extraction.readers.delimited import MOST_COLUMNS
from agentic_backend.extraction.writing import Writer

MOST_ROWS = 1_048_576
"""Rows of a sheet that are looked at, as many as one of Excel has."""
MOST_SHEETS = 1_000


def read_workbook(data: bytes, most_characters: int) -> Document:
    """Raises Refused, and whatever the library raises."""
    workbook = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
    writer = Writer(most_characters)
    sheets = [sheet for sheet in workbook.worksheets if sheet.sheet_state == "visible"]
    if len(sheets) > MOST_SHEETS:
        raise Refused(f"the workbook has more than {MOST_SHEETS:,} sheets")
    has_values = False
    for sheet in sheets:
        # What it says of its size may be anything; its cells tell.
        sheet.reset_dimensions()
        if rows := _rows(sheet, most_characters - writer.length):
            writer.heading(1, sheet.title)
            writer.table(rows)
            has_values = True
    if not has_values:
        raise Refused("the workbook has no cells with values")
    return writer.document("xlsx")


def _rows(sheet: Any, room: int) -> list[list[str]]:
    """The rows with values, without the empty cells at their ends; `room` is for so many characters."""
    rows: list[list[str]] = []
    left = room
    for number, values in enumerate(sheet.iter_rows(values_only=True)):
        if number >= MOST_ROWS:
            raise Refused(f"the sheet has more than {MOST_ROWS:,} rows")
        if len(values) > MOST_COLUMNS:
            raise Refused(f"the table has more than {MOST_COLUMNS:,} columns")
        row = [_text(value) for value in values]
        while row and not row[-1]:
            row.pop()
        if row:
            rows.append(row)
            left -= sum(map(len, row)) + len(row)
        if left < 0:
            raise Refused(f"the text has more than {room:,} characters")
    return rows


def _text(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "TRUE" if value else "FALSE"
        case float():
            return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
        case datetime():
            return value.date().isoformat() if value.time() == time() else value.isoformat(" ", "seconds")
        case date() | time():
            return value.isoformat()
        case timedelta():
            return str(value)
    return str(value)
