"""Splits a stream of bytes into messages: lines (stdio) and server-sent events (HTTP). Pure: bytes in, messages out.

Of a line of any length, only the beginning and the last bytes are kept.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

MOST_BYTES = 4 * 1024 * 1024
"""Bytes of one message that are read: enough for a result's images and texts, of which results.py shows less."""

_TAIL_BYTES = 256
_LONGEST_FIELD = 1024
_SHORTEST_RETRY_MS, _LONGEST_RETRY_MS = 1_000, 30_000


class Capped:
    """The beginning of a text of any length, its last bytes, and its size."""

    __slots__ = ("head", "size", "tail")

    def __init__(self) -> None:
        self.head = bytearray()
        """The beginning, up to `MOST_BYTES`."""
        self.size = 0
        """Bytes in all."""
        self.tail = b""
        """The last bytes, if the text is longer than `head`."""

    @property
    def is_cut(self) -> bool:
        return self.size > len(self.head)

    def add(self, data: bytes | bytearray) -> None:
        room = MOST_BYTES - len(self.head)
        if room > 0:
            self.head += data[:room]
        self.size += len(data)
        if self.is_cut:
            self.tail = (self.tail + bytes(data[-_TAIL_BYTES:]))[-_TAIL_BYTES:]

    def add_behind(self, prefix: int, line: "Capped") -> None:
        """Add `line` without its first `prefix` bytes."""
        self.add(line.head[prefix:])
        if line.is_cut:
            self.size += line.size - len(line.head)
            self.tail = line.tail


class Lines:
    """Splits a stream at its line feeds."""

    def __init__(self) -> None:
        self.line = Capped()
        """The unfinished line."""

    def feed(self, data: bytes) -> Iterator[Capped]:
        *ends, rest = data.split(b"\n")
        for end in ends:
            self.line.add(end)
            line, self.line = self.line, Capped()
            yield line
        self.line.add(rest)


@dataclass(slots=True)
class ServerSentEvent:
    name: bytes = b"message"
    """The event's type."""
    data: Capped = field(default_factory=Capped)
    """Its data lines, joined by line feeds."""
    id: bytes | None = None
    """The place from which MCP's client resumes the stream, if the server sends one."""
    retry_ms: int | None = None
    """The delay before it resumes, if the server sends one."""

    def encoded(self, data: bytes | None) -> bytes:
        """The event with `data`, one line or none, instead of its own; empty if nothing is left to send."""
        lines = []
        if data is not None:
            lines += [b"event: " + self.name, b"data: " + data]
        if self.id is not None:
            lines.append(b"id: " + self.id)
        if self.retry_ms is not None:
            lines.append(b"retry: %d" % self.retry_ms)
        return b"\n".join([*lines, b"", b""]) if lines else b""


class ServerSentEvents:
    """Splits a stream into events (WHATWG HTML, 9.2.6). Lines end with LF, CR or both."""

    def __init__(self) -> None:
        self._lines = Lines()
        """Splits the stream, after all line endings have become line feeds."""
        self._after_return = False
        """Whether the last byte was a CR: a LF that comes next belongs to it."""
        self._event: ServerSentEvent | None = None
        """The unfinished event."""

    @property
    def is_too_long(self) -> bool:
        """Whether the unfinished line or event is too long to be kept completely."""
        return self._lines.line.is_cut or (self._event is not None and self._event.data.is_cut)

    def feed(self, data: bytes) -> Iterator[ServerSentEvent]:
        if self._after_return and data.startswith(b"\n"):
            data = data[1:]
        if not data:
            return
        self._after_return = data.endswith(b"\r")
        for line in self._lines.feed(data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")):
            if line.size:
                self._add(line)
            elif self._event is not None:
                event, self._event = self._event, None
                yield event

    def _add(self, line: Capped) -> None:
        name, colon, _ = bytes(line.head[:16]).partition(b":")
        if not name:
            return
        prefix = len(name) + len(colon)
        prefix += line.head[prefix : prefix + 1] == b" "
        event = self._event = self._event or ServerSentEvent()
        value = bytes(line.head[prefix : prefix + _LONGEST_FIELD + 1])
        if name == b"data":
            if event.data.size:
                event.data.add(b"\n")
            event.data.add_behind(prefix, line)
        elif len(value) > _LONGEST_FIELD:
            return
        elif name == b"event":
            event.name = value
        elif name == b"id" and b"\0" not in value:
            event.id = value
        elif name == b"retry" and value.isdigit():
            # Bounded, so that the server can't make its client retry without a pause, or never.
            event.retry_ms = min(max(int(value), _SHORTEST_RETRY_MS), _LONGEST_RETRY_MS)
