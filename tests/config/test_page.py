"""The settings of the page: what is taken for a logo, and what is refused."""

import struct
from pathlib import Path

import pytest
from pydantic import ValidationError

from agentic_backend.config.topics.page import PageSettings, load_logo
from agentic_backend.config.yaml.located_yaml import ConfigError

SVG = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><path d="M0 0h1v1z"/></svg>'


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height)


def settings(directory: Path, content: bytes, name: str = "logo.svg") -> PageSettings:
    path = directory / name
    path.write_bytes(content)
    return PageSettings(logo=path)


@pytest.mark.parametrize(
    ("content", "media_type", "size"),
    [
        (SVG, "image/svg+xml", "any"),
        (b"<?xml version='1.0'?>\n" + SVG, "image/svg+xml", "any"),
        (png(16, 2048), "image/png", "16x2048"),
    ],
)
def test_a_logo_is_told_by_its_content(tmp_path: Path, content: bytes, media_type: str, size: str) -> None:
    logo = load_logo(settings(tmp_path, content, name="logo.txt"))
    assert logo is not None and (logo.content, logo.media_type, logo.size) == (content, media_type, size)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"<html><script>alert(1)</script></html>", "neither an SVG nor a PNG"),
        (b"GIF89a", "neither an SVG nor a PNG"),
        (b"", "neither an SVG nor a PNG"),
        (SVG[:-5], "neither an SVG nor a PNG"),
        (b'<!DOCTYPE svg [<!ENTITY a "b">]>' + SVG, "neither an SVG nor a PNG"),
        (SVG.decode().encode("utf-16"), "neither an SVG nor a PNG"),
        (png(1, 1)[:20], "a broken PNG"),
        (png(15, 100), "15 × 100 pixels"),
        (png(100, 2049), "100 × 2049 pixels"),
        (SVG + b" " * 256 * 1024, "more than 262144 bytes"),
    ],
)
def test_what_is_no_logo_is_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    with pytest.raises(ConfigError, match=rf"logo\.svg: page\.logo: .*{problem}"):
        load_logo(settings(tmp_path, content))


def test_a_logo_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_logo(PageSettings(logo=tmp_path / "gone.svg"))


@pytest.mark.parametrize(
    "values",
    [
        {"accent": "red"},
        {"accent": "#fff"},
        {"accent": "#2f6299; } body { display: none"},
        {"name": ""},
        {"name": "   "},
        {"name": "x" * 65},
        {"name": "two\nlines"},
        {"name": "right \u202e to left"},
    ],
)
def test_what_could_not_be_shown_is_refused(values: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        PageSettings(**values)
