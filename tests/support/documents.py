"""The pages of the documentation, and the fenced blocks in them."""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
DOCS = CHECKOUT / "docs"
PAGES = [
    CHECKOUT / "README.md",
    CHECKOUT / "CONTRIBUTING.md",
    CHECKOUT / "CHANGELOG.md",
    CHECKOUT / "SECURITY.md",
    *sorted(DOCS.rglob("*.md")),
    *sorted((CHECKOUT / "clients").glob("*/README.md")),
    *sorted((CHECKOUT / "config").glob("*/*/README.md")),
]

RUN_BY = {
    ("docs/tutorial.md", "*"): "test_docs_tutorial.py",
    ("docs/applications.md", "*"): "test_docs_applications.py",
    ("docs/testing.md", "python"): "test_docs_testing.py",
    ("docs/evals.md", "*"): "test_docs_evals.py",
    ("docs/doors.md", "sh"): "support/doors_guide.py",
    ("docs/doors.md", "text"): "support/doors_guide.py",
    ("docs/how-to/ask-with-an-openai-client.md", "python"): "transports/openai/test_guide.py",
    ("docs/how-to/ask-with-an-mcp-client.md", "*"): "transports/mcp/test_guide.py",
    ("docs/how-to/show-agents-in-an-ag-ui-front-end.md", "js"): "transports/ag_ui/test_guide.py",
    ("docs/architecture.md", "text"): "test_docs_architecture.py",
    ("docs/production.md", "nginx"): "transports/test_behind_a_proxy.py",
    ("docs/slo.md", "promql"): "test_docs_alerts.py",
    ("docs/runbooks/", "promql"): "test_docs_alerts.py",
    ("docs/retrieval.md", "python"): "applications/retrieval/test_vector_stores.py",
    ("clients/python/README.md", "python"): "client/test_alone.py",
    ("clients/typescript/README.md", "js"): "clients/test_typescript_package.py",
}
"""The test or the helper of tests that runs the blocks of a page, by page and language; each names the page."""

_BLOCK = re.compile(r"^(?P<indent> *)```(?P<language>[^`\n]*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (?P<name>[\w./-]+\.\w+)\n")


@dataclass(frozen=True)
class Block:
    """A fenced block: its text without the fences, and where it stands."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def file(self) -> str | None:
        """The file that it is: its first line is a comment with the name."""
        named = _FILE.match(self.text)
        return None if named is None else named["name"]

    @property
    def place(self) -> str:
        """The page's path in the checkout."""
        return self.page.relative_to(CHECKOUT).as_posix()

    @property
    def run_by(self) -> str | None:
        """The test or helper of tests, below tests/, that runs the block as part of its page."""
        for (page, language), test in RUN_BY.items():
            if self.place.startswith(page) and language in ("*", self.language):
                return test
        return None

    def __str__(self) -> str:
        return f"{self.place}:{self.line}"


@cache
def blocks(page: Path) -> tuple[Block, ...]:
    return tuple(_blocks(page, page.read_text()))


def prose(page: Path) -> str:
    """The page without its blocks."""
    return _BLOCK.sub("", page.read_text())


def _blocks(page: Path, text: str) -> Iterator[Block]:
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(page, line, found["language"].strip(), textwrap.dedent(found["text"]))


def of(*languages: str) -> list[Block]:
    """All blocks in these languages that no test of their page runs."""
    found = (block for page in PAGES for block in blocks(page))
    return [block for block in found if block.language in languages and block.run_by is None]
