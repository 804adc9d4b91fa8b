"""How rarely garbage is looked for; in a process of its own, whose collector it changes."""

import subprocess
import sys

_PROGRAM = """
import gc, weakref
from agentic_backend.server.memory import collect_rarely

class Node:
    pass

collect_rarely()
assert gc.get_freeze_count() > 1_000
node = Node()
node.itself, gone = node, weakref.ref(node)
old = Node()
old.itself, gone_later = old, weakref.ref(old)
del node
kept = [[] for _ in range(30_000)]
assert gone() is None, "a young cycle is collected"
kept += [[] for _ in range(150_000)]
del old
kept += [[] for _ in range(600_000)]
assert gone_later() is None, "a cycle that was used for long is collected"
"""


def test_what_is_imported_is_left_alone_and_cycles_of_any_age_are_collected() -> None:
    ran = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
