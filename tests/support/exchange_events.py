"""Random logs of exchanges, as a server would keep them, and the ways in which a client may receive one. Seeded."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

Event = dict[str, Any]
Message = dict[str, Any]
Step = dict[str, Any]
"""A step of the client: `{event}` arrives, or `{stored}` messages were read; `{ignored: true}` for an old event."""

_STATUSES = ("ok", "ok", "ok", "error", "stopped", "interrupted")
_WRITTEN = ("thought", "observation", "plan", "final")


@dataclass
class ExchangeEvents:
    """The log of an exchange: `started` first, `final` last; each text starts with its rank."""

    random: Random
    exchange_id: str
    first_rank: int
    client_exchange_id: str | None = None
    events: list[Event] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    _seq: int = 0

    def __post_init__(self) -> None:
        self._add("started", agent_id="a", client_exchange_id=self.client_exchange_id)
        self._store("user", "final", [text_part("asks", self.next_rank)])
        for _ in range(self.random.randrange(1, 6)):
            self.random.choice((self._write, self._write, self._write, self._call, self._act, self._pause))()
        status = self.random.choice(_STATUSES)
        if status == "error":
            error = {"code": "internal", "content": "broken", "retryable": True}
            self._add("error", **error)
            self._store("system", "error", [text_part("broken", self.next_rank)])
        self._add("final", status=status, messages=list(self.messages), usage={})

    @property
    def next_rank(self) -> int:
        return self.first_rank + len(self.messages)

    def _add(self, type_: str, **fields: Any) -> None:
        self._seq += self.random.choice((1, 1, 1, 5))
        self.events.append(
            {"type": type_, "session_id": "s", "exchange_id": self.exchange_id, "seq": self._seq, **fields}
        )

    def _store(self, role: str, channel: str, parts: list[Event], block: int | None = None) -> None:
        message = {
            "exchange_id": self.exchange_id,
            "rank": self.next_rank,
            "role": role,
            "channel": channel,
            "parts": parts,
            "metadata": {},
        }
        self.messages.append(message)
        self._add("stream", message=message, **({} if block is None else {"block": block}))

    def _write(self) -> None:
        """Write one to three messages at once; their deltas alternate after all have started."""
        first_block = 100 * len(self.events)
        texts = {
            first_block + index: text_part("says", self.next_rank + index)["text"].split(" ")
            for index in range(self.random.randrange(1, 4))
        }
        left = {block: list(words) for block, words in texts.items()}
        turns = list(texts)
        while any(left.values()):
            block = turns.pop(0) if turns else self.random.choice([block for block, words in left.items() if words])
            word = left[block].pop(0) + (" " if left[block] else "")
            self._add("delta", block=block, channel=self.random.choice(_WRITTEN), text=word)
        for block, words in texts.items():
            part = {"type": "text", "text": " ".join(words)}
            self._store("assistant", self.random.choice(_WRITTEN), [part], block)

    def _call(self) -> None:
        calls = [f"{self.exchange_id}-{self.next_rank}-{index}" for index in range(self.random.randrange(1, 4))]
        parts = [{"type": "tool_call", "call_id": call, "name": "tool", "args": {}} for call in calls]
        self._store("assistant", "tool_call", parts)
        for call in self.random.sample(calls, len(calls)):
            self._store("tool", "tool_result", [{"type": "tool_result", "call_id": call, "ok": True, "content": "x"}])

    def _act(self) -> None:
        self._add("activity", kind=self.random.choice(("progress", "agent_switch")), data={"message": "acts"})

    def _pause(self) -> None:
        self._add("awaiting_human", payload={"requests": []})


def text_part(verb: str, rank: int) -> Event:
    return {"type": "text", "text": " ".join([f"{rank}.", verb, *(f"word{number}" for number in range(rank % 7))])}


def deliveries(log: ExchangeEvents) -> list[Step]:
    """One way to receive `log`: pieces, merged deltas, repeated events, replays, resets, reads of the store."""
    random, steps, place, replays = log.random, [], 0, 0
    while place < len(log.events):
        chance = random.random()
        if place and chance < 0.15:
            old = random.choice(log.events[:place])
            if old["type"] != "started":
                steps.append({"event": old, "ignored": True})
        elif place and chance < 0.22 and replays < 4:
            place, replays = 0, replays + 1
        elif place and chance < 0.29:
            # Another instance may have fewer events than the client has seen, and continues from there.
            place = random.randrange(1 if random.random() < 0.5 and replays < 4 else place, len(log.events))
            replays += 1
            steps.append({"event": reset_at(log, place)})
        elif place and chance < 0.37:
            read = random.randrange(place, len(log.events) + 1)
            steps.append({"stored": messages_at(log, read)})
        else:
            until = min(len(log.events), place + random.randrange(1, 5))
            steps += [{"event": event} for event in merged(log.events[place:until])]
            place = until
    return [*steps, *({"event": old, "ignored": True} for old in random.choices(log.events, k=3))]


def messages_at(log: ExchangeEvents, place: int) -> list[Message]:
    return [event["message"] for event in log.events[:place] if event["type"] == "stream"]


def reset_at(log: ExchangeEvents, place: int) -> Event:
    """The reset that replaces the first `place` events for a client whose place is no longer in the log."""
    partial: dict[int, Event] = {}
    for event in log.events[:place]:
        if event["type"] == "delta":
            before = partial.get(event["block"], {"text": ""})
            partial[event["block"]] = {name: event[name] for name in ("block", "channel")} | {
                "text": before["text"] + event["text"]
            }
        elif event["type"] == "stream":
            partial.pop(event.get("block", -1), None)
    last = {name: log.events[place - 1][name] for name in ("session_id", "exchange_id", "seq")}
    return {"type": "reset", **last, "messages": messages_at(log, place), "partial": list(partial.values())}


def merged(events: list[Event]) -> list[Event]:
    """`events` with adjacent deltas of a block merged."""
    result: list[Event] = []
    for event in events:
        last = result[-1] if result else None
        if last and last["type"] == event["type"] == "delta" and last["block"] == event["block"]:
            result[-1] = {**event, "text": last["text"] + event["text"]}
        else:
            result.append(event)
    return result
