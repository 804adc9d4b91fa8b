/** One conversation in the list, and its title while it is being renamed. */

import { html, useState } from "./html.js";
import { Icon, IconButton } from "./icons.js";
import { TitleInput } from "./title-input.js";

export function SessionItem({ session, current, waits, onOpen, onRename, onDelete }) {
  const [renaming, setRenaming] = useState(false);
  if (renaming) {
    return html`<li class="session">
      <${TitleInput} title=${session.title} onRename=${onRename} onClose=${() => setRenaming(false)} />
    </li>`;
  }
  const title = session.title || "New conversation";
  const state = current ? "session current" : "session";
  return html`<li class=${state} data-testid="session-item" data-session=${session.id}>
    <button
      type="button"
      class="session-title"
      aria-current=${current ? "page" : undefined}
      title=${title}
      onClick=${() => onOpen(session.id)}
    >
      <span>${title}</span>
      ${session.active_exchange_id && html`<${Activity} waits=${waits} />`}
    </button>
    <span class="session-actions">
      <${IconButton} name="pencil" label="Rename" data-testid="rename-session" onClick=${() => setRenaming(true)} />
      <${IconButton} name="trash" label="Delete" data-testid="delete-session" onClick=${() => onDelete(session)} />
    </span>
  </li>`;
}

function Activity({ waits }) {
  if (!waits) return html`<span class="running-dot" role="img" aria-label="Running" title="Running" />`;
  return html`<span class="waiting-mark" role="img" aria-label="Waits for you" title="Waits for you"
    ><${Icon} name="hand"
  /></span>`;
}
