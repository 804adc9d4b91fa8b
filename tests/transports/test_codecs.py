"""What the codecs make of events that a running server seldom sends."""

import json
from typing import Any

from support.protocol_samples import MESSAGE

from agentic_backend.protocol.events import Delta, PartialText, Reset
from agentic_backend.protocol.messages import Channel
from agentic_backend.transports.codecs import Classic

IDS: dict[str, Any] = {"session_id": "s", "exchange_id": "e"}


def test_behind_a_reset_the_classic_form_names_the_ranks_that_messages_get() -> None:
    codec = Classic()
    stored = [MESSAGE.model_copy(update={"rank": rank}) for rank in (4, 5)]
    partial = [PartialText(block=2, channel=Channel.FINAL, text="be")]
    assert codec.render(Reset(**IDS, seq=7, messages=stored, partial=partial)) is None
    ranks = []
    for seq, block in enumerate((3, 2), start=8):
        line = codec.render(Delta(**IDS, seq=seq, block=block, channel=Channel.FINAL, text="gun"))
        ranks.append(json.loads(line or "")["message"]["rank"])
    assert ranks == [7, 6]
