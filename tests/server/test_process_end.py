"""The end of the process: how its signals are counted."""

import subprocess
import sys

# In a process of its own, as it replaces signal handlers. The process is sent SIGUSR2, whose handler runs once the
# event loop has been woken for it, and sends a SIGINT that the loop can't have been woken for yet.
_ONE_SIGNAL = """
import asyncio, os, signal, threading
import uvloop
from agentic_backend.relay.drain import Drain
from agentic_backend.server.process_end import StopOrder

async def main():
    drain = Drain()
    order = StopOrder(drain)
    order.listen(asyncio.get_running_loop())
    signal.signal(signal.SIGUSR2, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR2)).start()
    await order.stop.wait()
    await asyncio.sleep(0.2)
    print("cut short" if drain.cut_short.is_set() else "stopped")
    os.kill(os.getpid(), signal.SIGINT)
    await drain.cut_short.wait()
    print("cut short")

with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.get_loop().run_until_complete(main())
# A late signal does nothing to a process that is about to end.
os.kill(os.getpid(), signal.SIGTERM)
print("ended")
"""


def test_a_signal_that_arrives_together_with_another_counts_once() -> None:
    process = subprocess.run([sys.executable, "-c", _ONE_SIGNAL], capture_output=True, text=True, timeout=60)
    assert (process.returncode, process.stdout.splitlines()) == (0, ["stopped", "cut short", "ended"]), process.stderr
