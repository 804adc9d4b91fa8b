"""Processes as Linux shows them: who started whom, and what is left of one that has ended."""

import os
from pathlib import Path


def children(pid: int) -> list[int]:
    """What the main thread of this process has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def runs(pid: int) -> bool:
    """Whether it runs; one that has ended doesn't, though it may lie there until somebody asks for its status."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    # Also where it ends while this is read.
    except OSError:
        return False


def is_there(pid: int) -> bool:
    """Whether it runs, or has ended and nobody has asked for its status yet."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def cpu_with_descendants_s(pid: int) -> float:
    """Processor time of a process, of all that it has started, and of those among them that have been waited for."""
    total_s, waiting = 0.0, [pid]
    while waiting:
        one = waiting.pop()
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            total_s += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
            for task in Path(f"/proc/{one}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
        # It has ended meanwhile.
        except OSError:
            continue
    return total_s
