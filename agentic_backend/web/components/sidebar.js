/** The list of conversations: new, search, open, rename, delete; below it who is signed in. */

import { dayGroup } from "../format.js";
import { Account } from "./account.js";
import { Brand } from "./brand.js";
import { ConfirmDialog } from "./confirm-dialog.js";
import { html, memo, useState } from "./html.js";
import { Icon, IconButton } from "./icons.js";
import { SessionItem } from "./session-item.js";

export const Sidebar = memo(({ user, sessions, openId, actions, onClose }) => {
  const [deleting, setDeleting] = useState(null);
  const startNew = () => {
    actions.conversation.startNew();
    onClose();
  };
  const open = (id) => {
    if (id !== openId) actions.conversation.open(id);
    onClose();
  };
  return html`<nav class="sidebar" id="sidebar" aria-label="Conversations">
    <${Brand} />
    <div class="sidebar-head">
      <button type="button" class="button new-chat" data-testid="new-chat" onClick=${startNew}>
        <${Icon} name="plus" />New chat
      </button>
      <${IconButton} name="close" label="Close the list" class="icon-button drawer-only" onClick=${onClose} />
    </div>
    <${Search} query=${sessions.query} onSearch=${(query) => actions.sessions.search(query)} />
    <div class="session-list" data-testid="session-list">
      ${grouped(sessions.items).map(
        ([name, items]) => html`<${Group}
          key=${name}
          name=${name}
          items=${items}
          openId=${openId}
          waiting=${sessions.waiting}
          onOpen=${open}
          onRename=${(id, title) => actions.sessions.rename(id, title)}
          onDelete=${setDeleting}
        />`,
      )}
      <${ListEnd} sessions=${sessions} actions=${actions} />
    </div>
    <${Account} user=${user} actions=${actions} />
    ${
      deleting &&
      html`<${ConfirmDialog}
      title="Delete this conversation?"
      text=${`“${deleting.title || "Untitled"}” and all its messages will be gone.`}
      confirm="Delete"
      onConfirm=${() => remove(deleting.id, openId, actions)}
      onClose=${() => setDeleting(null)}
    />`
    }
  </nav>`;
});

function Search({ query, onSearch }) {
  return html`<label class="search">
    <${Icon} name="search" />
    <input
      type="search"
      placeholder="Search"
      aria-label="Search conversations"
      data-testid="session-search"
      maxlength="200"
      value=${query}
      onInput=${({ target }) => onSearch(target.value)}
    />
  </label>`;
}

function Group({ name, items, openId, waiting, onOpen, onRename, onDelete }) {
  return html`<section>
    <h2>${name}</h2>
    <ul>
      ${items.map(
        (session) =>
          html`<${SessionItem}
            key=${session.id}
            session=${session}
            current=${session.id === openId}
            waits=${waiting.has(session.active_exchange_id)}
            onOpen=${onOpen}
            onRename=${(title) => onRename(session.id, title)}
            onDelete=${onDelete}
          />`,
      )}
    </ul>
  </section>`;
}

function ListEnd({ sessions: { items, cursor, query, loading, error }, actions }) {
  if (error) {
    return html`<div class="list-end" role="alert">
      <p class="muted">${error}</p>
      <button type="button" class="button" onClick=${() => actions.sessions.refresh()}>Try again</button>
    </div>`;
  }
  if (cursor) {
    return html`<div class="list-end">
      <button
        type="button"
        class="button"
        data-testid="more-sessions"
        disabled=${loading}
        onClick=${() => actions.sessions.more()}
      >
        ${loading ? "Loading…" : "More"}
      </button>
    </div>`;
  }
  if (items.length) return null;
  const text = loading ? "Loading…" : query ? "Nothing found." : "Your conversations will be listed here.";
  return html`<p class="list-end muted">${text}</p>`;
}

async function remove(id, openId, actions) {
  await actions.sessions.remove(id);
  if (id === openId) actions.conversation.startNew({ replace: true });
}

/** The sessions under the headings of their days, in the order given. */
function grouped(items) {
  return [...Map.groupBy(items, ({ updated_at: at }) => dayGroup(at))];
}
