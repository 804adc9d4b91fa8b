/** A conversation that somebody shares by a link: read-only, and without who it is from. */

import { brand } from "../brand.js";
import { newTranscript, stored } from "../client/transcript.js";
import { errorText } from "../error-words.js";
import { formatTime } from "../format.js";
import { t } from "../i18n.js";
import { KnownAgents } from "./agent-mark.js";
import { Exchange } from "./exchange.js";
import { html, useCallback, useEffect, useState } from "./html.js";

const NOTHING = {};

/** `read(afterRank)` gives a page of what is shared; see Api.shared. */
export function SharedPage({ read }) {
  const [shown, setShown] = useState(null);
  const [error, setError] = useState(null);
  const readOn = async (before) => {
    setError(null);
    try {
      const page = await read(before?.page.next_after_rank ?? null);
      const transcript = stored(before?.transcript ?? newTranscript(), page.messages.map(withFileNames));
      const agents = [...(before?.agents ?? []), ...page.agents];
      setShown({ page, transcript, agents });
    } catch (failure) {
      setError(errorText(failure));
    }
  };
  useEffect(() => {
    readOn(null);
  }, []);
  useEffect(() => {
    document.title = shown ? `${shown.page.title} – ${brand.name}` : brand.name;
  }, [shown]);
  const page = shown?.page;
  const agentName = useCallback((id) => shown?.agents.find((agent) => agent.id === id)?.name ?? id, [shown]);
  if (!shown) {
    return html`<main class="shared">
      <div class="center" role=${error ? "alert" : "status"}>
        <p>${error ?? t("Loading")}</p>
        <a class="button" href=".">${t("To your own conversations")}</a>
      </div>
    </main>`;
  }
  return html`<${KnownAgents.Provider} value=${shown.agents}><main class="shared" data-testid="shared">
    <header class="head">
      <h1 class="head-title" data-testid="title">${page.title}</h1>
      <span class="tag" data-testid="session-agent">${page.agent_name}</span>
    </header>
    <p class="connection" data-testid="shared-banner">
      <span>${t("Shared by link, read-only, until {time}.", { time: formatTime(page.expires_at) })}</span>
      <a class="button" href=".">${t("To your own conversations")}</a>
    </p>
    <div class="messages" tabindex="0" role="region" aria-label=${t("Messages")} data-testid="messages">
      <div class="column">
        ${shown.transcript.exchanges.map(
          (exchange) => html`<${Exchange}
            key=${exchange.key}
            exchange=${exchange}
            said=${NOTHING}
            isLast=${false}
            isHeard=${true}
            agentName=${agentName}
            conversation=${null}
          />`,
        )}
        ${error && html`<p class="notice error" role="alert">${error}</p>`}
        ${
          page.next_after_rank !== undefined &&
          html`<button type="button" class="button" data-testid="read-on" onClick=${() => readOn(shown)}>
            ${t("Read on")}
          </button>`
        }
      </div>
    </div>
  </main><//>`;
}

/** Files are not shared, only their names. */
function withFileNames(message) {
  const parts = message.parts.map((part) =>
    part.type === "file" ? { type: "text", text: t("File: {name}", { name: part.name }) } : part,
  );
  return { ...message, parts };
}
