"""Fills the tables of docs/reliability.md and docs/security.md with the figures of the campaigns.

A program: `python -m support.tables`, in tests/, writes the pages. A row names its tests and shows their figures. A row
without figures stays unchanged.
"""

import re

from support.figures import FILES, Figures, read

PAGES = {"faults": FILES.parent / "reliability.md", "hostile": FILES.parent / "security.md"}
HEADER = "| promise | how tested | figure |"
NAMED = re.compile(r"`([\w/]+\.py::\w+)`")


def measured(campaign: str) -> Figures:
    return read(FILES / f"{campaign}.json")


def made(page: str, figures: Figures) -> str:
    """The page with these figures."""
    return "\n".join(_row(line, figures) if line.startswith("|") else line for line in page.split("\n"))


def _row(line: str, figures: Figures) -> str:
    cells = line.split("|")
    told = [text for test in NAMED.findall(cells[2]) for text in figures.get(test, [])]
    if not told:
        return line
    return "|".join([*cells[:3], f" {'; '.join(told)} ", ""])


if __name__ == "__main__":
    for campaign, path in PAGES.items():
        path.write_text(made(path.read_text(), measured(campaign)))
