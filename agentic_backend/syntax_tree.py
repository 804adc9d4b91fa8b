"""Parses Python source in any thread: Python 3.11's parser fails in one while another one makes a tree."""

import ast
import threading
from typing import Any

_one_at_a_time = threading.Lock()


def parsed(source: str | bytes, mode: str = "exec") -> Any:
    """What `ast.parse` returns. Raises what it raises."""
    with _one_at_a_time:
        return ast.parse(source, mode=mode)
