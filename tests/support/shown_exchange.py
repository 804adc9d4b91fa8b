"""A client's view of one exchange, independent of the sockets that delivered its events.

It applies events as the contract says, and fails on violations: a repeated event on one socket, a message that differs
from its deltas, a second final, a stored message that changes.
"""

import time
from collections.abc import Sequence
from typing import Any

from support.chat_client import Event, is_answer, text_of

# Events that a server sent before it was killed may be read a little later.
_ON_ITS_WAY_S = 1.0


class ShownExchange:
    """`messages` holds messages by rank, `texts` the open texts by block. Times are those of `time.monotonic`."""

    def __init__(self) -> None:
        self.session_id: str | None = None
        self.exchange_id: str | None = None
        self.seq = 0
        self.messages: dict[int, dict[str, Any]] = {}
        self.texts: dict[int, str] = {}
        self.awaiting: dict[str, Any] | None = None
        self.final: Event | None = None
        self.resets = 0
        self._first_on_socket = True
        self._heard: dict[int, list[tuple[float, str]]] = {}
        """Every state of each block's text, with the time of its arrival."""
        self._whole: set[int] = set()
        """The blocks whose messages contain all received text."""

    @property
    def writing(self) -> str:
        """The text that is being written."""
        return "".join(self.texts.values())

    @property
    def channels(self) -> list[str]:
        """The channels of the messages, by rank."""
        return [self.messages[rank]["channel"] for rank in sorted(self.messages)]

    def reconnect(self) -> None:
        """Note that later events come from a new socket."""
        self._first_on_socket = True

    def apply(self, event: Event) -> None:
        """Apply an event of this exchange that was not requested again."""
        assert self.final is None, "nothing comes after the final"
        assert self.exchange_id in (None, event["exchange_id"])
        assert event["seq"] > self.seq or event["type"] in ("started", "reset"), (
            f"{event['type']} {event['seq']} came again"
        )
        self.session_id, self.exchange_id, self.seq = event["session_id"], event["exchange_id"], event["seq"]
        match event["type"]:
            case "delta":
                self._write(event["block"], self.texts.get(event["block"], "") + event["text"])
            case "stream":
                self._complete(event["message"], event.get("block"))
            case "awaiting_human":
                self.awaiting = event["payload"]
            case "reset":
                self._reset(event)
            case "final":
                self._end(event)
        self._first_on_socket = False

    def lost_s(self, killed_at: Sequence[float]) -> float:
        """The seconds of text that a kill of the server lost: shown before the kill, but missing in the final.

        They count from the arrival of the first missing word to the first kill after the last word. `killed_at` are the
        times of all kills.
        """
        kept = self._kept_partial()
        states = [state for block, heard in self._heard.items() if block not in self._whole for state in heard]
        if not states:
            return 0.0
        gone_at = min((at for at in killed_at if at > states[-1][0] - _ON_ITS_WAY_S), default=max(killed_at))
        for _, text in states:
            assert text.startswith(kept) or kept.startswith(text), f"shown {text[-80:]!r}, kept {kept[-80:]!r}"
        return max((gone_at - at for at, text in states if len(text) > len(kept)), default=0.0)

    def _kept_partial(self) -> str:
        assert self.final is not None
        answers = [message for message in self.final["messages"] if is_answer(message)]
        return text_of(answers[-1]) if answers else ""

    def _write(self, block: int, text: str) -> None:
        self.texts[block] = text
        self._heard.setdefault(block, []).append((time.monotonic(), text))

    def _complete(self, message: dict[str, Any], block: int | None) -> None:
        rank = message["rank"]
        assert self.messages.setdefault(rank, message) == message, "a stored message never changes"
        if block is not None:
            shown = self.texts.pop(block)
            if self._heard.get(block, [(0.0, shown)])[-1][1] == shown:
                self._whole.add(block)
            assert shown == text_of(message), f"block {block} showed {shown[-80:]!r}, not {text_of(message)[-80:]!r}"

    def _reset(self, event: Event) -> None:
        self.resets += 1
        self._keeps_all_of(event["messages"])
        self.messages = {message["rank"]: message for message in event["messages"]}
        self.texts = {partial["block"]: partial["text"] for partial in event["partial"]}

    def _end(self, final: Event) -> None:
        self._keeps_all_of(final["messages"])
        # A client that returns when the events are no longer kept gets only the final.
        is_whole = final["status"] != "ok" or self._first_on_socket
        assert is_whole or not self.texts, "every text is complete when all went well"
        self.messages = {message["rank"]: message for message in final["messages"]}
        self.texts = {}
        self.final = final

    def _keeps_all_of(self, messages: list[dict[str, Any]]) -> None:
        by_rank = {message["rank"]: message for message in messages}
        missing = [rank for rank, message in self.messages.items() if by_rank.get(rank) != message]
        assert not missing, f"messages {missing} were shown as stored and are gone or others"
