"""The program that reads a file: it stands back behind the server, can open nothing, and whatever it does is borne."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from support.extracting import extracted, refused
from support.made_documents import a_workbook

from agentic_backend.errors import DocumentUnreadable
from agentic_backend.extraction import extractor, program
from agentic_backend.extraction.document import Block, Document, Line, Page, packed
from agentic_backend.extraction.extractor import Bounds

BOUNDS = Bounds(characters=1_000, timeout_s=10)
ASKED = {"name": "a", "characters": 1_000, "pages": 1, "cpu_s": 5, "memory_bytes": 2**30}


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
async def test_the_program_stands_back_behind_the_server() -> None:
    started = [sys.executable, "-I", program.__file__, json.dumps(ASKED)]
    running = await asyncio.create_subprocess_exec(*started, stdin=asyncio.subprocess.PIPE)
    score = Path(f"/proc/{running.pid}/oom_score_adj")
    try:
        async with asyncio.timeout(20):
            while await asyncio.to_thread(score.read_text) != "1000\n":
                await asyncio.sleep(0.01)
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert os.getpriority(os.PRIO_PROCESS, running.pid) == min(own + 10, 19)
    finally:
        running.kill()
        await running.wait()


def standing_in(source: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this run in place of the program."""
    path = directory / "program.py"
    path.write_text(source)
    monkeypatch.setattr(extractor, "_PROGRAM", path)


PROGRAMS = {
    "is killed in the middle": (
        'import os\nos.write(1, b\'{"refused": "half\')\nos.kill(os.getpid(), 9)',
        "too much time or memory",
    ),
    "never ends": ("while True: pass", "too much time or memory"),
    "raises": ("raise SystemExit(3)", "too much time or memory"),
    "says nothing": ("", "the file can't be read"),
    "says rubbish": ("import os\nos.write(1, os.urandom(100_000))", "the file can't be read"),
    "says another value": ("print('[1, 2]')", "the file can't be read"),
    "says what is deep": ("print('[' * 1_000_000)", "the file can't be read"),
    "says more than a document has": ("while True: print('x' * 1_000_000)", "more than is kept"),
    "refuses in odd words": ('print(\'{"refused": "a\\\\nb"}\')', "the file can't be read"),
    "refuses at length": ("print('{\"refused\": \"' + 'x' * 1_000_000 + '\"}')", "^x{500}$"),
    "refuses with no words": ("print('{\"refused\": 7}')", "the file can't be read"),
}


@pytest.mark.parametrize("what", PROGRAMS)
async def test_whatever_the_program_does_ends_in_one_error(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, words = PROGRAMS[what]
    standing_in(source, tmp_path, monkeypatch)
    bounds = Bounds(characters=1_000, timeout_s=1 if what == "never ends" else 30)
    with pytest.raises(DocumentUnreadable, match=words):
        await extracted(b"x", "a", bounds)


WHOLE = Document(
    "pdf",
    "a\n\nb",
    (Block("heading", 0, 1, (), 1), Block("paragraph", 3, 4, ("a",))),
    (Page(1, 2),),
    (Line(0, 1, 1, (0, 0, 1, 1)),),
)


def test_a_document_is_unpacked_as_it_was_packed() -> None:
    assert extractor._document_in(packed(WHOLE)) == WHOLE


FORGED = [
    {"kind": "exe"},
    {"blocks": [["heading", 0, 99, 0, 1, None, None]]},
    {"blocks": [["heading", 3, 1, 0, 1, None, None]]},
    {"blocks": [["heading", -1, 1, 0, 1, None, None]]},
    {"blocks": [["heading", 0, 1, 7, 1, None, None]]},
    {"blocks": [["heading", 0, 1, -1, 1, None, None]]},
    {"blocks": [["heading", True, 1, 0, 1, None, None]]},
    {"blocks": [["heading", 0, 1, 0, 1, 5, None]]},
    {"blocks": [["heading", 2, 3, 0, 1, None, None], ["heading", 0, 1, 0, 1, None, None]]},
    {"blocks": [["heading", 0]]},
    {"blocks": None},
    {"paths": [[7]]},
    {"lines": [[0, 1, 2, 0, 0, 0, 0]]},
    {"lines": [[0, 1, 1, 0, 0, 0, "x"]]},
    {"lines": [[0, 1, 1, 0, 0, 0, 1e300]]},
    {"pages": [[1]]},
]


@pytest.mark.parametrize("wrong", FORGED, ids=range(len(FORGED)))
def test_what_a_program_that_was_taken_over_says_is_not_believed(wrong: dict[str, object]) -> None:
    head, _, text = packed(WHOLE).partition(b"\n")
    forged = json.dumps(json.loads(head) | wrong).encode() + b"\n" + text
    with pytest.raises(DocumentUnreadable, match="the file can't be read"):
        extractor._document_in(forged)


async def test_nothing_can_be_opened_where_a_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(program.__file__).parents[2]
    tries = (
        "socket.socket()",
        "open('/etc/passwd')",
        "os.pipe()",
        "subprocess.run(['true'])",
        "os.open('/dev/null', 0)",
    )
    source = f"""
import json, os, socket, subprocess, sys
sys.path.insert(0, {str(root)!r})
from agentic_backend.extraction import program
program._close_descriptors()
failed = 0
for each in {tries!r}:
    try: eval(each)
    except OSError: failed += 1
print(json.dumps({{"refused": f"{{failed}} failed"}}))
"""
    standing_in(source, tmp_path, monkeypatch)
    assert await refused(b"x") == f"{len(tries)} failed"


async def test_a_kind_whose_library_is_missing_is_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(program.__file__).parents[2]
    source = f"""
import json, sys
sys.path.insert(0, {str(root)!r})
from agentic_backend.extraction import program
sys.modules["openpyxl"] = sys.modules["trafilatura"] = None
sys.stdout.buffer.write(program.main(json.loads(sys.argv[1])))
"""
    standing_in(source, tmp_path, monkeypatch)
    for content, what in ((a_workbook({"One": [["x"]]}), "XLSX"), (b"<html><body>x</body></html>", "HTML")):
        assert await refused(content) == f"{what} is not read here: the server needs agentic-backend[documents] for it"
    assert await refused(b"# text", "a.md") == ""


async def test_bounds_are_kept_and_told() -> None:
    assert await refused(b"x" * 11, "a", Bounds(bytes=10)) == "the file has more than 10 bytes"
    assert "1,001 characters; at most 1,000" in await refused(b"x" * 1_001, "a", BOUNDS)
    assert "more than 1,000 characters" in await refused(a_workbook({"One": [["x" * 1_001]]}), "a", BOUNDS)


async def test_who_gives_up_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "pid"
    standing_in(
        f"import os, time\nopen({str(mark)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)", tmp_path, monkeypatch
    )
    reading = asyncio.create_task(extracted(b"x"))
    async with asyncio.timeout(20):
        while not await asyncio.to_thread(mark.exists) or not (pid := await asyncio.to_thread(mark.read_text)):
            await asyncio.sleep(0.01)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)
