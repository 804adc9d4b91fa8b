"""The settings `page`: how the chat page presents itself, and the reading of its logo.

A logo is told by its content, not by its name. It is shown as an image only, where nothing in an SVG is active.
"""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from xml.etree import ElementTree

from pydantic import Field, StringConstraints

from agentic_backend.config.setting_types import AnyPath, Section
from agentic_backend.config.yaml.located_yaml import ConfigError, ConfigProblem

_LARGEST_LOGO = 256 * 1024
_PIXELS = range(16, 2049)
_PNG = b"\x89PNG\r\n\x1a\n"
_SVG = "{http://www.w3.org/2000/svg}svg"

ProductName = Annotated[
    str,
    StringConstraints(strip_whitespace=True, pattern=r"^[^\x00-\x1f\x7f\u200e\u200f\u202a-\u202e\u2066-\u2069]{1,64}$"),
    Field(json_schema_extra={"expected": "1 to 64 characters on one line"}),
]
HexColour = Annotated[
    str,
    Field(pattern=r"^#[0-9a-fA-F]{6}$", json_schema_extra={"expected": "a colour such as '#2f6299', in quotes"}),
]


class PageSettings(Section):
    name: ProductName = Field(
        "Chat", description="The page's name: in its title, beside its logo, and where it is installed."
    )
    logo: AnyPath | None = Field(
        None,
        description="The file of the logo: an SVG, or a PNG of 16 to 2048 pixels, of 256 KiB at most; `null` is the "
        "shipped one.",
    )
    accent: HexColour | None = Field(
        None,
        description="The colour of buttons and links, such as `#2f6299`, darker or lighter where it could not be "
        "read; `null` is the shipped one.",
    )


@dataclass(frozen=True, slots=True)
class Logo:
    """An image of the `media_type`; `size` is what a web manifest says of it, such as `192x192`, or `any`."""

    content: bytes
    media_type: str
    size: str


def load_logo(settings: PageSettings) -> Logo | None:
    """Raises ConfigError if the file can't be read, or is no image of the two kinds."""
    if settings.logo is None:
        return None
    try:
        with settings.logo.open("rb") as file:
            content = file.read(_LARGEST_LOGO + 1)
    except OSError as error:
        raise _problem(settings.logo, error.strerror or "cannot be read") from None
    if len(content) > _LARGEST_LOGO:
        raise _problem(settings.logo, f"the logo has more than {_LARGEST_LOGO} bytes")
    if content.startswith(_PNG):
        return Logo(content, "image/png", _png_size(settings.logo, content))
    if _is_svg(content):
        return Logo(content, "image/svg+xml", "any")
    raise _problem(settings.logo, "the logo is neither an SVG nor a PNG")


def _png_size(path: Path, content: bytes) -> str:
    # The header chunk is the first one (PNG specification, section 11.2.1).
    if len(content) < 24 or content[12:16] != b"IHDR":
        raise _problem(path, "the logo is a broken PNG")
    width, height = struct.unpack(">II", content[16:24])
    if width not in _PIXELS or height not in _PIXELS:
        raise _problem(path, f"the logo has {width} × {height} pixels, not {_PIXELS[0]} to {_PIXELS[-1]}")
    return f"{width}x{height}"


def _is_svg(content: bytes) -> bool:
    # Entities are declared in a doctype only, and no SVG needs one.
    if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
        return False
    try:
        return ElementTree.fromstring(content.decode()).tag == _SVG
    except (ElementTree.ParseError, ValueError, LookupError):
        return False


def _problem(path: Path, message: str) -> ConfigError:
    return ConfigError([ConfigProblem(str(path), None, None, "page.logo", message)])
