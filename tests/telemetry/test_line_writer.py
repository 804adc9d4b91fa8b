"""LineWriter: over real pipes whose readers are slow, gone, or back again."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from agentic_backend.telemetry.line_writer import LineWriter

PATIENCE_S = 30
LINES = 20_000


class Pipe(NamedTuple):
    reading: int
    writing: int

    def read(self, until: str) -> list[str]:
        """All lines, up to the first one with `until` in it."""
        data = b""
        deadline = time.monotonic() + PATIENCE_S
        while until.encode() not in data or not data.endswith(b"\n"):
            assert time.monotonic() < deadline, data[-200:]
            data += os.read(self.reading, 65_536)
        return data.decode().splitlines()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe(*os.pipe())
    yield pipe
    for descriptor in pipe:
        try:
            os.close(descriptor)
        except OSError:
            pass


def writer_to(pipe: Pipe, queued_bytes: int = 100_000) -> LineWriter:
    return LineWriter(pipe.writing, "dropped {}".format, queued_bytes=queued_bytes)


def test_lines_are_written_in_order_with_and_without_the_thread(pipe: Pipe) -> None:
    writer = writer_to(pipe)
    writer.write("before")
    with writer.in_background():
        for number in range(1_000):
            writer.write(str(number))
    writer.write("after")
    assert pipe.read("after") == ["before", *map(str, range(1_000)), "after"]


def test_a_reader_that_stops_holds_nobody_up_and_every_line_is_accounted_for(pipe: Pipe) -> None:
    writer = writer_to(pipe)
    with writer.in_background():
        for number in range(LINES):
            writer.write(f"line {number:050}")
        # It came so far although nobody has read; now somebody reads again.
        told = pipe.read("dropped ")
        writer.write("the end")
        told += pipe.read("the end")
    expected = 0
    for line in told[:-1]:
        word, _, number = line.partition(" ")
        if word == "dropped":
            expected += int(number)
        else:
            assert line == f"line {expected:050}", "each gap is told where it is"
            expected += 1
    assert expected == LINES


def test_a_reader_that_is_gone_ends_nothing(pipe: Pipe) -> None:
    writer = writer_to(pipe)
    os.close(pipe.reading)
    writer.write("one")
    with writer.in_background():
        for number in range(LINES):
            writer.write(f"line {number}")
        writer.flush()
    assert writer.lines_lost >= LINES + 1, "with the lines that would have told of gaps"
    assert writer.stalled_s == 0, "nothing waits"


def test_a_full_disk_holds_nobody_up_and_every_line_is_accounted_for_when_it_writes_again(tmp_path: Path) -> None:
    file = tmp_path / "log"
    descriptor, room = os.open("/dev/full", os.O_WRONLY), os.open(file, os.O_WRONLY | os.O_CREAT)
    writer = LineWriter(descriptor, "dropped {}".format, queued_bytes=100_000)
    try:
        writer.write("before the thread")
        with writer.in_background():
            for number in range(LINES):
                writer.write(f"line {number:050}")
            os.dup2(room, descriptor)
            writer.write("the end")
            wait_until(lambda: accounted_for(file) == LINES + 2)
    finally:
        os.close(descriptor)
        os.close(room)
    first, *lines = file.read_text().splitlines()
    assert first == "before the thread" and lines[0] == f"line {0:050}", "what fits is written when there is room"
    assert len([line for line in lines if line.startswith("dropped ")]) == 1
    assert accounted_for(file) == LINES + 2


def test_what_a_full_disk_costs_is_known_while_no_line_can_tell_it(tmp_path: Path) -> None:
    file = tmp_path / "log"
    descriptor, room = os.open("/dev/full", os.O_WRONLY), os.open(file, os.O_WRONLY | os.O_CREAT)
    writer = LineWriter(descriptor, "dropped {}".format, queued_bytes=100)
    try:
        with writer.in_background():
            assert writer.stalled_s == 0
            for _ in range(20):
                writer.write("x" * 9)
            wait_until(lambda: writer.stalled_s > 0.5)
            assert writer.lines_lost == 10, "ten fit"
            assert "No space left on device" in writer.stalled_by
            os.dup2(room, descriptor)
            wait_until(lambda: writer.stalled_s == 0)
    finally:
        os.close(descriptor)
        os.close(room)
    assert "dropped 10\n" in file.read_text()
    assert writer.lines_lost == 10, "since the process began"


def test_a_reader_that_stops_is_known_too(pipe: Pipe) -> None:
    writer = writer_to(pipe)
    with writer.in_background():
        writer.write("x" * 90_000)
        wait_until(lambda: writer.stalled_s > 0.1)
        assert writer.stalled_by == "nobody reads it"
        pipe.read("x\n")
        wait_until(lambda: writer.stalled_s == 0)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def accounted_for(file: Path) -> int:
    """How many lines are written, or counted as dropped."""
    lines = file.read_text().split("\n")[:-1]
    return sum(int(line.split()[1]) if line.startswith("dropped ") else 1 for line in lines)


def test_without_the_thread_a_reader_that_stops_is_not_waited_for_without_end(pipe: Pipe) -> None:
    writer = writer_to(pipe)
    writing = threading.Thread(target=writer.write, args=("x" * 90_000,), daemon=True)
    writing.start()
    writing.join(PATIENCE_S)
    assert not writing.is_alive()
    done = threading.Thread(target=writer.flush, daemon=True)
    done.start()
    done.join(PATIENCE_S)
    assert not done.is_alive()


def test_a_flush_waits_for_what_was_written_before(pipe: Pipe) -> None:
    writer = writer_to(pipe)
    with writer.in_background():
        writer.write("critical")
        writer.flush()
        assert os.read(pipe.reading, 100) == b"critical\n"
