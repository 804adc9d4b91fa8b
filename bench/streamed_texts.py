"""The texts that stream into the page, and agents that write them: 24 characters each 4 ms, some 6 kB a second."""

import asyncio
from collections.abc import AsyncIterator
from itertools import cycle
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult

from agentic_backend.agents.agent_flow import CompiledGraph
from agentic_backend.experts.plain_chat.graph import build

PIECE = 24
PAUSE_S = 0.004
SHORT, LONG = 18_000, 78_000

_SECTION = """\
## What the {n}th measurement shows

The values **rise** with the load, as *expected*, until `queue.size` reaches its bound; see
[the documentation](https://docs.example.org/{n}) for what happens then. Nothing is lost, and nothing is shown twice.

1. Begin with **one** client and no delay.
2. Add clients until the 95th percentile passes \\(2 \\cdot t_0\\).
   - Note the processor time of the server.
   - Note its memory.
3. Stop.

```python
def measure(clients: int = {n}) -> list[float]:
    \"\"\"The times in ms, in the order in which they were taken.\"\"\"
    return [run(client) for client in range(clients)]  # one after another
```

| clients | median | p95 | note |
|--------:|-------:|----:|------|
| 1 | 3.1 ms | 4.0 ms | alone |
| {n} | 3.4 ms | 5.2 ms | with `uvloop` |

> The network was idle. What is measured is the server.

"""


def _text(lines: list[str], length: int) -> str:
    """The lines over and over, numbered, up to this length."""
    written, text = 0, []
    for n, line in enumerate(cycle(lines), start=1):
        text.append(line.replace("{n}", str(n)))
        written += len(text[-1])
        if written >= length:
            break
    return "".join(text)


_ITEMS = [
    "- Item {n} with **strong** words, `code` and a [link](https://example.org/{n}).\n",
    "- Item {n} is a plain one.\n",
]
_ROWS = ["| {n} | **strong** words | `code_{n}` | plain words |\n"]

TEXTS = {
    "mixed": _text([_SECTION], SHORT),
    "list": _text(_ITEMS, SHORT),
    "table": "| number | strong | code | plain |\n|---:|---|---|---|\n" + _text(_ROWS, SHORT),
    "long": _text([_SECTION], LONG),
}


class _WritingModel(BaseChatModel):
    text: str
    pause_s: float = PAUSE_S

    @property
    def _llm_type(self) -> str:
        return "writing"

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for start in range(0, len(self.text), PIECE):
            await asyncio.sleep(self.pause_s)
            yield ChatGenerationChunk(message=AIMessageChunk(content=self.text[start : start + PIECE]))

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise TypeError("the writing model only streams")


def _writing(text: str, pause_s: float = PAUSE_S) -> CompiledGraph:
    return build(_WritingModel(text=text, pause_s=pause_s))


mixed, list_, table, long = (_writing(TEXTS[name]) for name in ("mixed", "list", "table", "long"))
usual = _writing(TEXTS["mixed"], pause_s=0.01)
"""As fast as a fast model: 100 pieces, or tokens, a second."""
