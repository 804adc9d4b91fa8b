"""Prints the text of a PDF, as a program of its own: `python pdf_text.py MOST_PAGES MOST_CHARACTERS CPU_SECONDS < PDF`.

A PDF is a program that may take any time and memory, so it is read apart from the server, within limits that the
operating system keeps. The answer is one line of JSON: `text`, or the reason `refused`.
"""

import io
import json
import logging
import os
import resource
import sys
from contextlib import suppress

_MEMORY_BYTES = 1024 * 1024 * 1024
_OUT_OF_BOUNDS = "the PDF takes too much time or memory to be read"


def main(most_pages: int, most_characters: int, cpu_s: int) -> dict[str, str]:
    """What to print. Never raises: a broken PDF raises anything."""
    _stand_back()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    logging.disable(logging.CRITICAL)
    try:
        return _read(sys.stdin.buffer.read(), most_pages, most_characters)
    except MemoryError:
        return {"refused": _OUT_OF_BOUNDS}
    except Exception as error:
        # pypdf refuses streams that decompress to more than 75 MB.
        is_bomb = type(error).__name__ == "LimitReachedError"
        return {"refused": _OUT_OF_BOUNDS if is_bomb else "the PDF can't be read"}


def _stand_back() -> None:
    """Leave the processor to the server first, and be ended before it where memory runs out."""
    os.nice(10)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")


def _read(data: bytes, most_pages: int, most_characters: int) -> dict[str, str]:
    from pypdf import PdfReader

    reader = PdfReader(io.BytesIO(data), strict=False)
    if reader.is_encrypted and not reader.decrypt(""):
        return {"refused": "the PDF is encrypted"}
    pages = len(reader.pages)
    if pages > most_pages:
        return {"refused": f"the PDF has {pages:,} pages; at most {most_pages:,} are read"}
    texts: list[str] = []
    room = most_characters
    for page in reader.pages:
        text = page.extract_text().strip()
        room -= len(text)
        if room < 0:
            return {"refused": f"the text of the PDF has more than {most_characters:,} characters"}
        if text:
            texts.append(text)
    if not texts:
        return {"refused": "the PDF has no text, only images perhaps"}
    return {"text": "\n\n".join(texts)}


if __name__ == "__main__":
    answer = main(*map(int, sys.argv[1:4]))
    # Lone surrogates of a broken font are no text.
    sys.stdout.write(json.dumps({key: text.encode("utf-8", "replace").decode() for key, text in answer.items()}))
