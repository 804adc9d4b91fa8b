/** One conversation in the list, and its title while it is being renamed. */

import { html, useLayoutEffect, useRef, useState } from "./html.js";
import { Icon, IconButton } from "./icons.js";

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
    ><${Icon} name="hand" /></span
  >`;
}

function TitleInput({ title, onRename, onClose }) {
  const input = useRef(null);
  const [error, setError] = useState(null);
  /** The field also loses the focus when it goes away after Enter or Escape. */
  const done = useRef(false);
  // Before the next key arrives, which would go astray; `select` alone moves the focus in some browsers only.
  useLayoutEffect(() => {
    input.current.focus();
    input.current.select();
  }, []);

  const save = async () => {
    if (done.current) return;
    done.current = true;
    const wanted = input.current.value.trim();
    if (!wanted || wanted === title) return onClose();
    try {
      await onRename(wanted);
      onClose();
    } catch (failure) {
      done.current = false;
      setError(failure.message);
    }
  };
  const typed = (event) => {
    if (event.key === "Enter" && !event.isComposing) save();
    if (event.key !== "Escape") return;
    done.current = true;
    onClose();
  };
  return html`<input
      ref=${input}
      class="rename"
      data-testid="rename-input"
      aria-label="Title"
      maxlength="200"
      defaultValue=${title}
      onKeyDown=${typed}
      onBlur=${save}
    />
    ${error && html`<p class="muted" role="alert">${error}</p>`}`;
}
