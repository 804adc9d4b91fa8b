"""Whatever a graph may give, and wherever it is cut: the invariants of the contract hold, and nothing is lost."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from support.drafts import Transcript
from support.streams import Spoken, interleaved, lanes

from agentic_backend.agents.agent_flow import StreamPart
from agentic_backend.protocol.messages import Channel
from agentic_backend.protocol.parts import text_of
from agentic_backend.streaming.transcode.drafts import TextDraft


@given(st.data())
@settings(max_examples=200)
def test_the_invariants_hold_however_models_interleave_and_wherever_they_are_cut(data: st.DataObject) -> None:
    spoken = data.draw(lanes())
    parts = data.draw(interleaved(spoken))
    cut = data.draw(st.integers(0, len(parts)))
    transcript = Transcript(*parts[:cut])
    if data.draw(st.booleans(), label="finished"):
        transcript.finish()
    else:
        transcript.close()
    check_that_each_is_told_once(transcript, [one for lane in spoken for one in lane], parts[:cut])


def check_that_each_is_told_once(transcript: Transcript, spoken: Sequence[Spoken], parts: Sequence[StreamPart]) -> None:
    """Of each text that was shown or handed over there is one message; a final may repeat what is told already."""
    seen = "".join(draft.text for draft in transcript.drafts if isinstance(draft, TextDraft)) + str(parts)
    told = [text_of(message.parts) for message in transcript.messages if message.channel is Channel.OBSERVATION]
    finals = [text_of(message.parts) for message in transcript.messages if message.channel is Channel.FINAL]
    for one in spoken:
        observed = sum(one.mark in text for text in told)
        answered = sum(one.mark in text for text in finals)
        assert observed <= 1
        assert (observed + answered > 0) == (one.has_text and one.mark in seen)
