"""The page's document: `index.html` as it is written, and as it is served.

It is written as a document for single sources, with a line for each stylesheet, and served for the linked ones.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from agentic_backend.transports.page.es_module import LinkError

_STYLESHEET = re.compile(r'<link rel="stylesheet" href="static/([^"]+)" />\s*')
_NAMED = re.compile(r'(<title>[^<]*</title>|<link rel="icon"[^>]*>|<meta name="(application-name|sign-in)"[^>]*>)\s*')
_SCRIPT = re.compile(r'<script src="static/([^"]+)"></script>')
_ENTRY = re.compile(r'<script type="module" src="static/([^"]+)"></script>')


@dataclass(frozen=True, slots=True)
class Index:
    """`entry`, `scripts` and `stylesheets` are paths; `text` is the document without stylesheets, names and icon.

    `scripts` run before anything is painted, and are no modules.
    """

    entry: str
    scripts: tuple[str, ...]
    stylesheets: tuple[str, ...]
    text: str

    @classmethod
    def read(cls, text: str) -> "Index":
        """Raises LinkError if it is not as expected."""
        entry = _ENTRY.search(text)
        if entry is None:
            raise LinkError("index.html: no module that the page begins with")
        scripts, stylesheets = tuple(_SCRIPT.findall(text)), tuple(_STYLESHEET.findall(text))
        return cls(entry[1], scripts, stylesheets, _NAMED.sub("", _STYLESHEET.sub("", text)))

    def document(self, version: str, sign_in: dict[str, str], name: str, icon: str, stylesheets: Iterable[str]) -> str:
        """The document for the files of `version`. It tells how to sign in, which saves a request.

        `icon` is the path of the logo.
        """
        head = [
            *(f'<link rel="stylesheet" href="static/{path}" />' for path in stylesheets),
            f'<link rel="modulepreload" href="static/{self.entry}" />',
            f'<meta name="application-name" content="{escape(name)}" />',
            f'<meta name="sign-in" content="{escape(json.dumps(sign_in))}" />',
            f'<link rel="icon" href="static/{icon}" />',
            f"<title>{escape(name)}</title>",
        ]
        text = self.text.replace("</head>", "  " + "\n    ".join(head) + "\n  </head>", 1)
        return text.replace('="static/', f'="static/{version}/')
