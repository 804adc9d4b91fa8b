"""The page's document: `index.html` as it is written, and as it is served.

It is written as a document for single sources, with a line for each stylesheet, and served for the linked ones.
"""

import json
import re
from dataclasses import dataclass
from html import escape

from agentic_backend.transports.page.es_module import LinkError

_STYLESHEET = re.compile(r'<link rel="stylesheet" href="static/([^"]+)" />\s*')
_ENTRY = re.compile(r'<script type="module" src="static/([^"]+)"></script>')


@dataclass(frozen=True, slots=True)
class Index:
    """`entry` and `stylesheets` are paths; `text` has neither yet."""

    entry: str
    stylesheets: tuple[str, ...]
    text: str

    @classmethod
    def read(cls, text: str) -> "Index":
        """Raises LinkError if it is not as expected."""
        entry = _ENTRY.search(text)
        if entry is None:
            raise LinkError("index.html: no module that the page begins with")
        return cls(entry[1], tuple(_STYLESHEET.findall(text)), _STYLESHEET.sub("", text))

    def document(self, version: str, sign_in: dict[str, str]) -> str:
        """The document whose files are those of `version`. It tells how to sign in, which saves a request."""
        files = f"static/{version}"
        head = "\n    ".join(
            (
                f'<link rel="stylesheet" href="{files}/style.css" />',
                f'<link rel="modulepreload" href="{files}/{self.entry}" />',
                f'<meta name="sign-in" content="{escape(json.dumps(sign_in))}" />',
            )
        )
        text = self.text.replace('="static/', f'="{files}/')
        return text.replace("</title>", f"</title>\n    {head}", 1)
