"""What threads run is found without a collection of garbage, which could make all of them stand still."""

import gc
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

import pytest

from agentic_backend.loop.thread_frames import thread_frames


@pytest.fixture
def collecting() -> Iterator[None]:
    before = gc.isenabled()
    yield
    (gc.enable if before else gc.disable)()


def test_each_thread_has_its_frame() -> None:
    assert thread_frames()[threading.get_ident()].f_code.co_name == "thread_frames"


@pytest.mark.usefixtures("collecting")
@pytest.mark.parametrize("collects", [True, False])
def test_garbage_is_collected_after_it_as_before_and_not_meanwhile(
    monkeypatch: pytest.MonkeyPatch, collects: bool
) -> None:
    meanwhile: list[bool] = []
    found = sys._current_frames

    def frames() -> dict[int, FrameType]:
        meanwhile.append(gc.isenabled())
        return found()

    monkeypatch.setattr(sys, "_current_frames", frames)
    (gc.enable if collects else gc.disable)()
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: thread_frames(), range(200)))
    assert (set(meanwhile), gc.isenabled()) == ({False}, collects)
