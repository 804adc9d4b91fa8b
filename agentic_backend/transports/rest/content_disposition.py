"""Content-Disposition: the header of a download (RFC 6266), and the names of files that are made of a text."""

import re
from urllib.parse import quote

from agentic_backend.text.invisible_characters import is_invisible
from agentic_backend.text.normal_form import normal_form

# No file system takes these, or a shell gives them a meaning.
_UNFIT = re.compile(r"[/\\:*?\"<>|%]")
# With an extension still below the 255 bytes that file systems allow.
_LONGEST_BYTES = 180


def disposition_of(name: str) -> str:
    """The header that makes a download of a body: the name in ASCII and, whole, as RFC 8187 has it."""
    ascii_name = "".join(one if one.isascii() and one.isprintable() and one not in '"\\%' else "_" for one in name)
    return f"attachment; filename=\"{ascii_name}\"; filename*=UTF-8''{quote(name, safe='')}"


def file_name(title: str, extension: str) -> str:
    """A name for a file: the title without what no file system takes, without characters that nobody sees."""
    text = normal_form("NFC", title)
    plain = "".join(" " if is_invisible(each) else each for each in text)
    words = " ".join(_UNFIT.sub(" ", plain).split()).encode()[:_LONGEST_BYTES].decode(errors="ignore")
    # A leading period hides a file, and trailing ones get lost.
    return f"{words.strip(' .') or 'conversation'}.{extension}"
