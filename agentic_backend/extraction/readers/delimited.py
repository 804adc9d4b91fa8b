"""CSV and its kin: rows of cells, with the delimiter that divides most lines alike."""

import csv
import io
from collections import Counter

from agentic_backend.extraction.document import Document
from agentic_backend.extraction.kinds import Refused
from agentic_backend.extraction.writing import Writer

MOST_COLUMNS = 16_384
"""As many as a sheet of Excel has."""

_DELIMITERS = (",", ";", "\t", "|")
_SAMPLE_CHARACTERS, _SAMPLE_ROWS = 64 * 1024, 100


def read_delimited(text: str, most_characters: int) -> Document:
    # Its cells are in the text, with more than one character between them.
    if len(text) > most_characters:
        raise Refused(f"the text has more than {most_characters:,} characters")
    first, _, rest = text.partition("\n")
    # What Excel itself reads as its delimiter.
    if first[:4].lower() == "sep=" and len(first) == 5:
        delimiter, text = first[4], rest
    else:
        delimiter = _delimiter_of(text)
    csv.field_size_limit(most_characters + 1)
    rows = []
    for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True):
        if len(row) > MOST_COLUMNS:
            raise Refused(f"the table has more than {MOST_COLUMNS:,} columns")
        rows.append(row)
    writer = Writer(most_characters)
    writer.table(rows)
    found = writer.document("csv")
    if not found.blocks:
        raise Refused("the table has no cells with text")
    return found


def _delimiter_of(text: str) -> str:
    """The one by which the most rows have the same number of cells, and more than one."""
    sample = text[:_SAMPLE_CHARACTERS]
    if len(text) > len(sample):
        # The last line of it is cut.
        sample = sample.rpartition("\n")[0] or sample
    return max(_DELIMITERS, key=lambda each: _fit(sample, each))


def _fit(sample: str, delimiter: str) -> tuple[float, int]:
    csv.field_size_limit(len(sample) + 1)
    widths: Counter[int] = Counter()
    try:
        for number, row in enumerate(csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter)):
            if number == _SAMPLE_ROWS:
                break
            if row:
                widths[len(row)] += 1
    except csv.Error:
        return 0, 0
    if not widths:
        return 0, 0
    width, count = max(widths.items(), key=lambda each: (each[1] * (each[0] > 1), each[0]))
    return (count / widths.total() if width > 1 else 0), width
