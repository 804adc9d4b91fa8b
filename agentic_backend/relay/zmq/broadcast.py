"""ZmqBroadcast: the broadcast between the workers of one server, by ZeroMQ over Unix sockets.

Each worker binds one socket that publishes, and subscribes to those of the others. A worker that dies and the one that
replaces it are a connection that ends and comes back, which ZeroMQ sees to. Nothing here waits for a worker.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager

import zmq
import zmq.asyncio

from agentic_backend.kpi.groups.broadcast import BroadcastMetrics
from agentic_backend.loop.event_loop import is_cancelled
from agentic_backend.relay.broadcast import Listener, TellAway, pass_on
from agentic_backend.relay.control_messages import Joined, NotUnderstood, ResetWanted, Told, decode_control
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.relay.zmq.messages import CONTROL
from agentic_backend.relay.zmq.mirroring import ZmqMirrors
from agentic_backend.relay.zmq.peers import Peers
from agentic_backend.relay.zmq.publisher import ZmqPublisher
from agentic_backend.system_errors import summary_of

log = logging.getLogger(__name__)

# The most messages that wait for one worker; further ones are lost, which it notices. None is much longer than
# PIECE_BYTES: a worker that stands still costs the others 80 MiB each at most, however many do.
_WAITING_AT_MOST = 10_000
# The same of one that has received them, for each of the others.
_UNREAD_AT_MOST = 2_000
_SIGN_EVERY_S = 1.0
# A worker that is replaced is back soon.
_RECONNECT_MS, _RECONNECT_AT_MOST_MS = 50, 1_000
# How long the last words may take to a worker that reads slowly; and the end of the sockets.
_LAST_WORDS_MS, _CLOSE_S = 300, 0.5
# Those that died included.
_WORKERS_KNOWN = 256
# Messages after which the event loop has its turn.
_AT_ONCE = 50


class ZmqBroadcast:
    """`zmq_broadcast` owns its sockets and the task of `run`."""

    def __init__(
        self,
        publishing: zmq.asyncio.Socket,
        hearing: zmq.asyncio.Socket,
        instance_id: str,
        away: TellAway,
        metrics: BroadcastMetrics,
    ) -> None:
        self._publishing = publishing
        self._hearing = hearing
        self._instance_id = instance_id
        self._tell_away = away
        self._metrics = metrics
        self._listener: Listener | None = None
        """Receives the messages of other workers."""
        self._heard: dict[str, int] = {}
        """The number of the last message of each worker, by its instance's id, the one heard last at the end."""
        self._ask_at = 0.0
        """When the others may be asked again what was missed, in the event loop's time."""
        self._publisher = ZmqPublisher(instance_id, self._send, metrics)
        self._mirrors = ZmqMirrors(
            self._subscribe, lambda exchange_id: self._publisher.tell(ResetWanted(exchange_id=exchange_id)), metrics
        )

    def listen(self, listener: Listener) -> None:
        self._listener = listener

    def publish(self, published: ExchangeLog) -> None:
        self._mirrors.end(published.exchange_id)
        self._publisher.publish(published)

    def mirror(self, mirrored: ExchangeLog) -> bool:
        self._publisher.let_go(mirrored.exchange_id)
        self._mirrors.mirror(mirrored)
        return True

    def started(self, published: ExchangeLog) -> None:
        self._publisher.started(published)

    def tell(self, told: Told) -> None:
        self._publisher.tell(told)

    def stop(self, exchange_id: str) -> None:
        self._publisher.stop(exchange_id)

    def forget(self, exchange_ids: Collection[str]) -> None:
        for exchange_id in exchange_ids:
            self._mirrors.end(exchange_id)
            self._publisher.let_go(exchange_id)

    async def run(self) -> None:
        """Hear the others until cancelled, or until the sockets fail, which has no second try."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._hear())
                tasks.create_task(self._see_subscriptions())
                tasks.create_task(self._show_signs())
        except* Exception as errors:
            self._tell_away("other")
            told = {"reason": "other", "error": summary_of(errors)}
            log.warning("the broadcast is away", extra=told, exc_info=errors)

    def flush(self) -> None:
        """Send what has gathered."""
        self._publisher.send_due()

    async def _hear(self) -> None:
        # No timeouts: the others may have nothing to tell for a long time.
        async for frames in _messages(self._hearing):
            with self._logged():
                if frames[0] == CONTROL:
                    self._receive(*frames[1:])
                else:
                    self._mirrors.take(frames)

    async def _see_subscriptions(self) -> None:
        async for [subscription, *_] in _messages(self._publishing):
            with self._logged():
                self._publisher.subscribed(subscription[1:], subscription[:1] == b"\1")

    async def _show_signs(self) -> None:
        while not is_cancelled():
            with self._logged():
                self._publisher.sign()
                self._publisher.sign_exchanges()
                self._mirrors.prune()
            await asyncio.sleep(_SIGN_EVERY_S)

    def _receive(self, sender: bytes, number: bytes, data: bytes) -> None:
        self._count(sender.decode(), int(number), is_sign=not data)
        if not data or self._listener is None:
            return
        match decode_control(data).told:
            case Joined():
                self._publisher.tell_again()
            case ResetWanted(exchange_id=exchange_id):
                self._publisher.begin_anew(exchange_id)
            case told:
                pass_on(told, self._listener)

    def _count(self, sender: str, number: int, *, is_sign: bool) -> None:
        """Notice messages of this worker that did not come."""
        last = self._heard.pop(sender, None)
        self._heard[sender] = number
        if last == number - (not is_sign):
            return
        if self._listener is not None:
            self._listener.may_have_missed()
        if last is not None:
            self._metrics.lost("gap")
            self._ask_again()
        while len(self._heard) > _WORKERS_KNOWN:
            del self._heard[next(iter(self._heard))]

    def _ask_again(self) -> None:
        """Ask all others to tell what runs; not too often, for it makes more messages."""
        now = asyncio.get_running_loop().time()
        if now >= self._ask_at:
            self._ask_at = now + _SIGN_EVERY_S
            self._publisher.tell(Joined())

    def _send(self, frames: list[bytes]) -> None:
        # After the end of the sockets nobody hears it.
        if self._publishing.closed:
            return
        # Done at once: a publisher doesn't wait.
        sent = asyncio.ensure_future(self._publishing.send_multipart(frames))
        if sent.done() and (error := sent.exception()) is not None:
            self._metrics.lost("message")
            log.warning("broadcast message not sent", extra={"reason": summary_of(error)})

    def _subscribe(self, topic: bytes, is_wanted: bool) -> None:
        if not self._hearing.closed:
            self._hearing.setsockopt(zmq.SUBSCRIBE if is_wanted else zmq.UNSUBSCRIBE, topic)

    @contextlib.contextmanager
    def _logged(self) -> Iterator[None]:
        """An error in one message is not the end of the broadcast."""
        try:
            yield
        except NotUnderstood:
            self._metrics.lost("unreadable")
            log.warning("broadcast message not understood")
        except Exception as error:
            log.exception("handling a broadcast message failed", exc_info=error)


async def _messages(socket: zmq.asyncio.Socket) -> AsyncIterator[list[bytes]]:
    """What the socket gets, until cancelled; other tasks have their turn in between."""
    count = 0
    while not is_cancelled():
        yield await socket.recv_multipart()
        count += 1
        if count % _AT_ONCE == 0:
            await asyncio.sleep(0)


@asynccontextmanager
async def zmq_broadcast(
    peers: Peers, instance_id: str, away: TellAway, metrics: BroadcastMetrics
) -> AsyncIterator[ZmqBroadcast]:
    """The broadcast among `peers`, which may come and go. Raises OSError if its socket can't be made."""
    context = zmq.asyncio.Context()
    publishing, hearing = context.socket(zmq.XPUB), context.socket(zmq.SUB)
    # Each subscription is told, also of a topic that another worker has: who comes later lacks what was.
    publishing.set(zmq.XPUB_VERBOSE, 1)
    for socket in (publishing, hearing):
        socket.set(zmq.LINGER, 0)
        socket.set_hwm(_WAITING_AT_MOST)
        socket.set(zmq.RECONNECT_IVL, _RECONNECT_MS)
        socket.set(zmq.RECONNECT_IVL_MAX, _RECONNECT_AT_MOST_MS)
    hearing.set(zmq.RCVHWM, min(_UNREAD_AT_MOST, _WAITING_AT_MOST))
    try:
        _connect(peers, publishing, hearing)
        away(None)
        broadcast = ZmqBroadcast(publishing, hearing, instance_id, away, metrics)
        running = asyncio.create_task(broadcast.run())
        try:
            yield broadcast
            broadcast.flush()
        finally:
            running.cancel()
            await asyncio.wait({running}, timeout=_CLOSE_S)
    finally:
        hearing.close()
        publishing.close(linger=_LAST_WORDS_MS)
        # Waits for the last words, in a thread.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await asyncio.to_thread(context.term)


def _connect(peers: Peers, publishing: zmq.asyncio.Socket, hearing: zmq.asyncio.Socket) -> None:
    hearing.subscribe(CONTROL)
    try:
        publishing.bind(peers.own)
        for endpoint in peers.others:
            hearing.connect(endpoint)
    except zmq.ZMQError as error:
        raise OSError(error.errno, error.strerror, peers.own) from error
