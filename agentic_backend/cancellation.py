"""For loops that must end once they are cancelled, whatever they await."""

import asyncio


def is_cancelled() -> bool:
    """Whether the current task was cancelled, even if nothing was raised.

    Before Python 3.12 `asyncio.wait_for`, in which drivers wait, swallows a cancellation that comes together with its
    result.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
