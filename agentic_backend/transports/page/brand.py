"""Brand: the page's name, logo and colour by the settings, and the files that tell them to the browser."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agentic_backend.config.topics.page import Logo
from agentic_backend.transports.page.accent import accent_stylesheet
from agentic_backend.transports.page.encoded_file import EncodedFile
from agentic_backend.transports.page.linked_files import STYLESHEET

_ACCENT, _LOGO, _MANIFEST = "accent.css", "logo", "manifest.webmanifest"
_SHIPPED_ICON = "icon.svg"
_SHIPPED_ICONS = (
    {"src": _SHIPPED_ICON, "type": "image/svg+xml", "sizes": "any"},
    {"src": "icons/192.png", "type": "image/png", "sizes": "192x192"},
    {"src": "icons/512.png", "type": "image/png", "sizes": "512x512"},
    {"src": "icons/maskable.png", "type": "image/png", "sizes": "512x512", "purpose": "maskable"},
)


@dataclass(frozen=True, slots=True)
class Brand:
    """`logo` and `accent` (`#rrggbb`) are None for the shipped ones."""

    name: str = "Chat"
    logo: Logo | None = None
    accent: str | None = None

    @property
    def icon(self) -> str:
        """The path of the logo."""
        return _SHIPPED_ICON if self.logo is None else _LOGO

    @property
    def stylesheets(self) -> tuple[str, ...]:
        """Paths, in the order in which they count."""
        return (STYLESHEET,) if self.accent is None else (STYLESHEET, _ACCENT)

    def files(self) -> Mapping[str, EncodedFile]:
        """By path."""
        return dict(self._files())

    def _files(self) -> Iterator[tuple[str, EncodedFile]]:
        yield _MANIFEST, EncodedFile.of(json.dumps(self._manifest()).encode(), "application/manifest+json")
        if self.logo is not None:
            yield _LOGO, EncodedFile.of(self.logo.content, self.logo.media_type)
        if self.accent is not None:
            yield _ACCENT, EncodedFile.of(accent_stylesheet(self.accent).encode(), "text/css")

    def _manifest(self) -> dict[str, Any]:
        """A web app manifest (W3C). Its URLs are relative to its own, which is two below the page's."""
        logo = self.logo
        own = None if logo is None else ({"src": _LOGO, "type": logo.media_type, "sizes": logo.size},)
        return {
            "name": self.name,
            "start_url": "../../",
            "scope": "../../",
            "display": "standalone",
            "background_color": "#ffffff",
            "theme_color": "#f6f6f4",
            "icons": own or _SHIPPED_ICONS,
        }
