"""The modules that the page shares with the TypeScript client, used by a page of somebody else on the same origin."""

from typing import Any

import pytest
from support.chat_client import check_exchange, final_text
from support.chat_page import ChatPage

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

ASK = """async (question) => {
  const { applyEvent, connect, newTranscript } = await import("/static/client/index.js");
  const chat = connect(location.origin);
  const events = [];
  let transcript = newTranscript();
  for await (const event of chat.ask(question)) {
    events.push(event);
    transcript = applyEvent(transcript, event);
  }
  chat.close();
  return { events, messages: transcript.exchanges[0].messages };
}"""


async def test_a_page_needs_no_package_to_chat(page: ChatPage) -> None:
    heard: dict[str, Any] = await page.tab.evaluate(ASK, "my name is Zorblax")
    check_exchange(heard["events"])
    assert "Zorblax" in final_text(heard["events"])
    assert heard["messages"] == heard["events"][-1]["messages"]
