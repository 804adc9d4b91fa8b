"""RESULTS.md: what `make bench` has measured, and behind it one section for each of the other benches."""

import re
from pathlib import Path

RESULTS = Path(__file__).parent / "RESULTS.md"
_SECTION = re.compile(r"^(?=## )", re.M)


def put(text: str, title: str | None = None) -> None:
    """Replace the section called `title`, or what stands before the first section, and leave the others."""
    head, *sections = _SECTION.split(RESULTS.read_text() if RESULTS.exists() else "")
    if title is None:
        head = text
    else:
        section, heading = f"## {title}\n\n{text}", f"## {title}\n"
        is_new = not any(each.startswith(heading) for each in sections)
        sections = [section if each.startswith(heading) else each for each in sections]
        sections += [section] if is_new else []
    RESULTS.write_text("\n\n".join(part.strip() for part in (head, *sections)) + "\n")
