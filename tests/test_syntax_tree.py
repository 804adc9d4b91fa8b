"""Source is parsed in many threads at once, where Python 3.11's own parser fails."""

import gc
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from agentic_backend.syntax_tree import parsed

SOURCE = "\n".join(f"def f{n}(a, b=[1, (2, 3)]):\n    return [a + b for _ in range({n})]" for n in range(100))


def let_others_run(phase: str, _: dict[str, int]) -> None:
    if phase == "start":
        time.sleep(0.0001)


@pytest.fixture
def garbage_is_looked_for() -> Iterator[None]:
    """Within a tree that is being made, and other threads run meanwhile, as finalizers may let them."""
    before = gc.get_threshold()
    gc.callbacks.append(let_others_run)
    gc.set_threshold(50)
    yield
    gc.set_threshold(*before)
    gc.callbacks.remove(let_others_run)


def at_depth(depth: int) -> Any:
    return parsed(SOURCE) if depth == 0 else at_depth(depth - 1)


@pytest.mark.usefixtures("garbage_is_looked_for")
def test_threads_parse_at_once() -> None:
    with ThreadPoolExecutor(6) as threads:
        trees = list(threads.map(at_depth, range(30)))
    assert {len(tree.body) for tree in trees} == {100}
