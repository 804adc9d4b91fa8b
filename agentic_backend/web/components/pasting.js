/**
 * What is pasted where one writes.
 *
 * Text wins: office programs add a picture of it, which is offered. Files are attached, and a text that is too long for
 * the field goes beside it; neither is in the field, so that its own undoing knows nothing of them.
 */

import { isImage } from "../attached.js";
import { isLong } from "../drafts.js";
import { t } from "../i18n.js";
import { html, useEffect, useRef, useState } from "./html.js";
import { Icon, IconButton } from "./icons.js";

const MOST_STEPS = 20;
const NONE = [];

/** `area` holds the field; `attachments` is null where nothing can be attached. */
export function usePasting({ area, sessionId, attachments, actions: { conversation, undo } }) {
  /** The pictures that came with a text. */
  const [pictures, setPictures] = useState(NONE);
  /** What can be taken back, the latest last: `{text, back}`, from when the field had that text. */
  const steps = useRef([]);
  /** What is written was sent, or is no longer what is shown. */
  const end = () => {
    setPictures(NONE);
    steps.current = [];
  };
  useEffect(end, [sessionId]);

  /** What is typed before this and after it is not undone as one. */
  const split = () => area.current.setSelectionRange(area.current.selectionStart, area.current.selectionEnd);
  const did = (back) => {
    split();
    steps.current = [...steps.current, { text: area.current.value, back }].slice(-MOST_STEPS);
  };
  const long = () => conversation.drafts.of(sessionId).pasted;
  const changeLong = (pasted) => {
    const before = long();
    conversation.draft({ pasted });
    did(() => conversation.draft({ pasted: before }));
  };
  const attach = (files) => {
    setPictures(NONE);
    did(attachments.add(files));
  };
  const write = (text) => {
    if (isLong(text)) return changeLong(long() ? `${long()}\n${text}` : text);
    area.current.focus();
    split();
    // Of all that writes into a field only this can be undone in it.
    document.execCommand("insertText", false, text);
  };
  const pasted = async (event) => {
    const { clipboardData: given } = event;
    const files = attachments ? [...given.files] : [];
    const [text, source] = ["text/plain", "text/html"].map((type) => given.getData(type));
    if (files.length && !saysMore(text, files)) {
      event.preventDefault();
      return attach(files);
    }
    setPictures(files.filter(({ type }) => isImage({ mime: type })));
    const hasTable = /<table/i.test(source);
    if (!hasTable && !isLong(text)) return;
    event.preventDefault();
    write(hasTable ? await withTables(text, source) : text);
  };
  const removeLong = () => {
    const before = long();
    changeLong(undefined);
    undo.offer({
      text: t("Pasted text removed"),
      undo: () => conversation.drafts.change(sessionId, { pasted: before }),
    });
  };
  /** Whether a key takes back what was pasted last, or taken away. */
  const undone = ({ key, ctrlKey, metaKey, shiftKey, altKey, target }) => {
    const last = steps.current.at(-1);
    const isMeant = key.toLowerCase() === "z" && (ctrlKey || metaKey) && !shiftKey && !altKey;
    // What was typed since is undone first.
    if (!isMeant || last?.text !== target.value) return false;
    steps.current.pop();
    last.back();
    return true;
  };
  return { pictures, attach, pasted, removeLong, undone, end };
}

/** Whether a text is more than the names of the files that it came with, as of files that are copied in a folder. */
const saysMore = (text, files) =>
  text.split(/\r?\n/).some((line) => line.trim() && !files.some(({ name }) => line.split(/[\\/]/).at(-1) === name));

/** The text as it is where what reads tables can't be loaded. */
const withTables = (text, source) =>
  import("../pasted-tables.js").then(
    (loaded) => loaded.withTables(text, source),
    () => text,
  );

/** The offer to attach the pictures that came with a text. */
export function PastedPictures({ pasting: { pictures, attach, end } }) {
  if (!pictures.length) return null;
  return html`<p class="composer-hint" role="status" data-testid="pasted-pictures">
    <${Icon} name="clip" />
    <span>${t("It was copied with a picture.")}</span>
    <button type="button" class="link-button" data-testid="attach-pictures" onClick=${() => attach(pictures)}>
      ${t("Attach the picture")}
    </button>
    <${IconButton} name="close" label=${t("Dismiss")} onClick=${end} />
  </p>`;
}
