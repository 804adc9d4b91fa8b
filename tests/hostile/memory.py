"""How much memory a process takes, as the kernel counts it."""

from pathlib import Path

MIB = 1024 * 1024


def resident(pid: int) -> int:
    """What it takes, in bytes."""
    return _field(pid, "VmRSS")


def most_resident(pid: int) -> int:
    """The most that it has ever taken, in bytes."""
    return _field(pid, "VmHWM")


def _field(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    [kib] = [line.split()[1] for line in lines if line.startswith(f"{name}:")]
    return int(kib) * 1024
