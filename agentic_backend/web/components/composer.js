/** Where the user writes. Its text lives in the drafts, so that it outlasts a refused ask and a change of session. */

import { isComposing } from "../composing.js";
import { t } from "../i18n.js";
import { isTouched } from "../touch.js";
import { AttachButton, AttachmentTray, DropArea } from "./attaching.js";
import { wholeText } from "../drafts.js";
import { DictateButton, DictationHint, useDictation } from "./dictating.js";
import { ComposerHints, LIMIT_ID, HINT_ID } from "./composer-hints.js";
import { html, memo, useEffect, useRef, useState } from "./html.js";
import { Icon } from "./icons.js";
import { sizeBeyond } from "./message-limit.js";
import { PastedText } from "./pasted-text.js";
import { PastedPictures, usePasting } from "./pasting.js";
import { Queued } from "./queued.js";

/** Browsers whose fields don't grow by themselves show so many lines at most. */
const GROWS = CSS.supports("field-sizing", "content");
const MOST_ROWS = 12;
const ABOUT_A_LINE = 80;

/**
 * `loading`, `running`, `stopping` and `waiting` say how the open conversation stands, `answers` that what is written
 * answers what waits, `isQuery` that nothing of it is kept; `limits` are the server's, null while they are not known;
 * `uploads` are the files on their way, of all sessions.
 */
export const Composer = memo((properties) => {
  const { draft, loading, running, stopping, waiting, answers, isQuery, refusal, limits, sessionId, actions } = properties;
  const uploads = properties.uploads.filter((upload) => upload.sessionId === sessionId);
  const { conversation, attachments } = actions;
  const limit = limits?.message_bytes ?? null;
  const attaching = limits?.attachment_bytes && !isQuery ? { limits, attachments } : null;
  const area = useRef(null);
  const pasting = usePasting({ area, sessionId, attachments: attaching && attachments, actions });
  const dictation = useDictation({ area, sessionId, onWritten: (heard) => conversation.draft({ text: heard }) });
  // With so many files it is sent, unless more is written, or one of them fails or is taken away.
  const [dueWith, setDueWith] = useState(null);
  const text = wholeText(draft);
  const size = sizeBeyond(text, limit);
  // The properties are of the page's last frame; what was typed or chosen since then is not in them.
  const { written } = conversation;
  const { files, isUploading, hasFailed } = attachments.now;

  useEffect(() => {
    // A phone would open its keyboard over the conversation; what waits for a decision has the focus.
    // Who has turned to another variant stays at its button.
    if (!waiting && !isTouched() && !document.activeElement?.closest(".variants")) area.current.focus();
  }, [sessionId]);

  const send = () => {
    const { value } = area.current;
    if (sizeBeyond(wholeText({ ...draft, text: value }), limit)) return;
    const { files, isUploading } = attachments.now;
    const isAwaited = attaching && isUploading;
    setDueWith(isAwaited && (value.trim() || !answers) ? files : null);
    if (isAwaited) return;
    // What is typed before the page renders again belongs to the next message.
    if (!(answers ? conversation.answer(value) : conversation.send(value))) return;
    area.current.value = "";
    pasting.end();
    dictation?.end();
  };
  useEffect(() => setDueWith(null), [sessionId]);
  useEffect(() => {
    if (dueWith === null) return;
    if (files !== dueWith || hasFailed) setDueWith(null);
    else if (!isUploading) send();
  }, [dueWith, files, isUploading]);
  const typed = (event) => {
    if (isComposing(event)) return;
    if (event.key === "Enter" && !event.shiftKey && !isTouched()) {
      event.preventDefault();
      send();
    } else if (event.key === "ArrowUp" && !event.target.value && !hasModifier(event)) {
      event.preventDefault();
      conversation.editLast();
    } else if (event.key === "Escape" && dictation?.isListening) {
      event.preventDefault();
      dictation.end();
    } else if (pasting.undone(event)) event.preventDefault();
  };
  const attachLong = () => {
    attachments.add([new File([draft.pasted ?? draft.text], `${t("Pasted text")}.txt`, { type: "text/plain" })]);
    conversation.draft(draft.pasted ? { pasted: undefined } : { text: "" });
    pasting.end();
  };
  const hasFiles = attaching && (uploads.some(({ error }) => !error) || draft.attachments?.some(({ app }) => !app));
  const isWritten = Boolean(text.trim() || (hasFiles && !answers));
  const mayQueue = running && isWritten;
  return html`<div class="composer-area">
    <${ComposerHints}
      refusal=${refusal}
      waiting=${waiting}
      answers=${answers}
      isQuery=${isQuery}
      isDue=${dueWith !== null}
      tooLong=${size && { limit, size }}
      onAttach=${attaching && attachLong}
      conversation=${conversation}
    />
    ${dictation && html`<${DictationHint} dictation=${dictation} />`}
    <${PastedPictures} pasting=${pasting} />
    ${draft.pasted && html`<${PastedText} text=${draft.pasted} onRemove=${pasting.removeLong} />`}
    ${draft.queued && html`<${Queued} queued=${draft.queued} running=${running || loading} conversation=${conversation} />`}
    ${attaching && html`<${AttachmentTray} attached=${draft.attachments ?? []} uploads=${uploads} ...${attaching} />`}
    ${attaching && html`<${DropArea} ...${attaching} />`}
    <div class=${isQuery ? "composer query" : "composer"}>
      ${attaching && html`<${AttachButton} ...${attaching} />`}
      <textarea
        ref=${area}
        id="composer"
        data-testid="composer"
        rows=${GROWS ? 1 : rowsOf(draft.text)}
        dir="auto"
        placeholder=${t("Write a message")}
        aria-label=${t("Write a message")}
        aria-describedby=${[waiting && HINT_ID, size && LIMIT_ID].filter(Boolean).join(" ") || undefined}
        aria-invalid=${size ? "true" : undefined}
        enterkeyhint=${isTouched() ? "enter" : "send"}
        value=${written}
        onInput=${({ target }) => {
          setDueWith(null);
          conversation.draft({ text: target.value });
        }}
        onKeyDown=${typed}
        onPaste=${pasting.pasted}
      />
      ${dictation && html`<${DictateButton} dictation=${dictation} />`}
      ${
        running &&
        html`<${RoundButton}
          kind="stop"
          label=${t("Stop")}
          disabled=${stopping}
          onClick=${() => conversation.stop()}
        />`
      }
      ${
        (!running || answers || mayQueue) &&
        html`<${RoundButton}
          kind="send"
          label=${running && !answers ? t("Send next") : t("Send")}
          disabled=${!isWritten || size || dueWith !== null || (running && !answers && draft.queued)}
          onClick=${send}
        />`
      }
    </div>
  </div>`;
});

function RoundButton({ kind, label, ...rest }) {
  return html`<button
    type="button"
    class=${`round ${kind}`}
    data-testid=${kind}
    aria-label=${label}
    title=${label}
    ...${rest}
  >
    <${Icon} name=${kind} />
  </button>`;
}

const hasModifier = ({ ctrlKey, metaKey, altKey, shiftKey }) => ctrlKey || metaKey || altKey || shiftKey;

function rowsOf(text) {
  const lines = text.slice(0, MOST_ROWS * ABOUT_A_LINE).split("\n");
  const rows = lines.reduce((sum, line) => sum + 1 + Math.floor(line.length / ABOUT_A_LINE), 0);
  return Math.min(rows, MOST_ROWS);
}
