/**
 * The editor of an entry and the view of a difference, on CodeMirror.
 *
 * Each is in a shadow tree: only there CodeMirror's styles are adopted style sheets, which the page's content security
 * policy allows, and not elements, which it doesn't.
 */

import { html, useLayoutEffect, useRef } from "../components/html.js";
import { t } from "../i18n.js";
import { autocompletion, completionKeymap } from "../vendor/codemirror-autocomplete.js";
import { defaultKeymap, history, historyKeymap } from "../vendor/codemirror-commands.js";
import {
  HighlightStyle,
  bracketMatching,
  foldGutter,
  foldKeymap,
  indentOnInput,
  syntaxHighlighting,
} from "../vendor/codemirror-language.js";
import { yaml } from "../vendor/codemirror-lang-yaml.js";
import { lintGutter, lintKeymap, linter, setDiagnostics } from "../vendor/codemirror-lint.js";
import { unifiedMergeView } from "../vendor/codemirror-merge.js";
import { Compartment, EditorState } from "../vendor/codemirror-state.js";
import {
  EditorView,
  drawSelection,
  highlightActiveLine,
  highlightSpecialChars,
  keymap,
  lineNumbers,
} from "../vendor/codemirror-view.js";
import { tags } from "../vendor/lezer-highlight.js";
import { completionsAt } from "./yaml-completion.js";

const CHECKED_AFTER_MS = 400;

/** The colours are those of styles/code.css, which doesn't reach into a shadow tree. */
const COLOURS = syntaxHighlighting(
  HighlightStyle.define([
    { tag: tags.comment, color: "light-dark(#5f6873, #98a1ad)", fontStyle: "italic" },
    { tag: [tags.string, tags.content], color: "var(--text)" },
    { tag: [tags.special(tags.string), tags.attributeValue], color: "light-dark(#256c3a, #93cf9f)" },
    { tag: [tags.definition(tags.propertyName), tags.propertyName], color: "light-dark(#20599b, #8fbdf2)" },
    { tag: [tags.keyword, tags.meta, tags.typeName], color: "light-dark(#a0257d, #ec92cb)" },
    { tag: [tags.punctuation, tags.separator, tags.bracket], color: "var(--quiet)" },
  ]),
);

const LOOK = EditorView.theme({
  "&": { height: "100%", backgroundColor: "var(--page)", color: "var(--text)", fontSize: "0.88rem" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6" },
  ".cm-content": { caretColor: "var(--text)", paddingBlock: "0.6rem" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    background: "light-dark(#cfe0f2, #2f4a66)",
  },
  ".cm-gutters": { backgroundColor: "var(--side)", color: "var(--quiet)", borderInlineEndColor: "var(--line)" },
  ".cm-activeLine": { backgroundColor: "light-dark(rgb(47 98 153 / 6%), rgb(127 176 227 / 7%))" },
  ".cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  ".cm-tooltip": {
    border: "1px solid var(--edge)",
    borderRadius: "8px",
    backgroundColor: "var(--raised)",
    color: "var(--text)",
  },
  ".cm-tooltip.cm-completionInfo": { maxWidth: "min(22rem, 70vw)", padding: "0.5rem 0.7rem", fontSize: "0.85rem" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "14rem" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "0.2rem 0.6rem" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": {
    backgroundColor: "var(--accent)",
    color: "var(--on-accent)",
  },
  ".cm-completionDetail": { fontStyle: "normal", opacity: "0.85" },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "700" },
  ".cm-diagnostic": { padding: "0.35rem 0.7rem", fontFamily: "var(--sans)", maxWidth: "34rem" },
  ".cm-diagnostic-error": { borderInlineStartColor: "var(--danger)" },
  ".cm-foldPlaceholder": { background: "var(--sunken)", borderColor: "var(--line)", color: "var(--quiet)" },
  ".cm-changedLine, &.cm-merge-b .cm-changedLine": { backgroundColor: "light-dark(#e6f4ea, #1d3325)" },
  ".cm-deletedChunk": { backgroundColor: "light-dark(#fbeeec, #38211f)" },
  ".cm-changedText, .cm-deletedText": { background: "none !important", boxShadow: "inset 0 -2px var(--ok)" },
  ".cm-deletedText": { boxShadow: "inset 0 -2px var(--danger)" },
  ".cm-collapsedLines": { background: "var(--sunken)", color: "var(--quiet)" },
});

const base = () => [
  lineNumbers(),
  highlightSpecialChars(),
  yaml(),
  COLOURS,
  LOOK,
  EditorState.phrases.of({
    "$ unchanged lines": t("$ unchanged lines"),
    Completions: t("Completions"),
    Diagnostics: t("Problems"),
    "Fold line": t("Fold line"),
    "Unfold line": t("Unfold line"),
    "folded code": t("Folded lines"),
    unfold: t("Unfold line"),
  }),
];

/**
 * The editor of `text`, which it is given anew with each `revision`. `check(text)` resolves to the problems of a text;
 * `onReady` gets `goTo(line, column)` and `focus()`. `problems` are shown at their places.
 */
export function YamlEditor({ text, revision, isReadOnly, schema, problems, check, onType, onSave, onReady }) {
  const host = useRef(null);
  const view = useRef(null);
  /** What the editor calls is that of the last rendering. */
  const now = useRef(null);
  now.current = { schema, check, onType, onSave };
  const writing = useRef(new Compartment());

  useLayoutEffect(() => {
    view.current = new EditorView({
      doc: text,
      root: shadowOf(host.current),
      parent: shadowOf(host.current),
      extensions: [base(), editing(now), writing.current.of(EditorState.readOnly.of(isReadOnly))],
    });
    onReady({ goTo: (line, column) => goTo(view.current, line, column), focus: () => view.current.focus() });
    return () => view.current.destroy();
  }, []);
  useLayoutEffect(() => {
    const { state } = view.current;
    const changes = { from: 0, to: state.doc.length, insert: text };
    if (text !== state.doc.toString()) view.current.dispatch({ changes, selection: { anchor: 0 }, userEvent: "set" });
    view.current.dispatch({ effects: writing.current.reconfigure(EditorState.readOnly.of(isReadOnly)) });
  }, [revision, isReadOnly]);
  useLayoutEffect(() => {
    view.current.dispatch(setDiagnostics(view.current.state, diagnosticsOf(problems, view.current.state.doc)));
  }, [problems]);
  return html`<div class="code-mirror" dir="ltr" ref=${host} data-testid="yaml-editor" />`;
}

function editing(now) {
  const complete = (context) => {
    const { schema } = now.current;
    const found = schema && completionsAt(context.state.doc.toString(), context.pos, schema);
    if (!found) return null;
    // While one types on, what is complete needs no list, which would take the next Enter.
    const isComplete = (word) => found.options.some(({ label }) => label === word);
    if (isComplete(context.state.sliceDoc(found.from, context.pos)) && !context.explicit) return null;
    return { ...found, validFor: (word) => /^[\w$./-]*$/.test(word) && !isComplete(word) };
  };
  const save = () => {
    now.current.onSave();
    return true;
  };
  return [
    history(),
    drawSelection(),
    highlightActiveLine(),
    indentOnInput(),
    bracketMatching(),
    foldGutter(),
    lintGutter(),
    autocompletion({ override: [complete], icons: false, activateOnCompletion: ({ type }) => type === "property" }),
    linter(null),
    checking(now),
    keymap.of([
      { key: "Mod-s", run: save, preventDefault: true },
      ...completionKeymap,
      ...lintKeymap,
      ...defaultKeymap,
      ...historyKeymap,
      ...foldKeymap,
    ]),
    EditorView.lineWrapping,
    EditorView.contentAttributes.of({ "aria-label": t("The agent's entry, in YAML"), "data-testid": "yaml" }),
  ];
}

/** Tells what is typed, and has it checked once nobody types. */
function checking(now) {
  let timer = null;
  return EditorView.updateListener.of(({ docChanged, state }) => {
    if (!docChanged) return;
    const text = state.doc.toString();
    now.current.onType(text);
    clearTimeout(timer);
    timer = setTimeout(() => now.current.check(text), CHECKED_AFTER_MS);
  });
}

/** What has no place is told at the first line. */
function diagnosticsOf(problems, doc) {
  return problems.map(({ message, line, column }) => {
    const at = doc.line(Math.min(Math.max(line ?? 1, 1), doc.lines));
    const from = Math.min(at.from + Math.max((column ?? 1) - 1, 0), at.to);
    const [word] = /^\S*/.exec(at.text.slice(from - at.from));
    return { from, to: Math.min(from + Math.max(word.length, 1), at.to), severity: "error", message };
  });
}

function goTo(view, line, column) {
  const [{ from }] = diagnosticsOf([{ message: "", line, column }], view.state.doc);
  view.dispatch({ selection: { anchor: from }, effects: EditorView.scrollIntoView(from, { y: "center" }) });
  view.focus();
}

/** What makes `after` of `before`, line by line; what is equal is folded. */
export function Difference({ before, after, label }) {
  const host = useRef(null);
  useLayoutEffect(() => {
    const view = new EditorView({
      doc: after,
      root: shadowOf(host.current),
      parent: shadowOf(host.current),
      extensions: [
        base(),
        unifiedMergeView({ original: before, mergeControls: false, collapseUnchanged: { margin: 3, minSize: 6 } }),
        EditorState.readOnly.of(true),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": label, "data-testid": "difference" }),
      ],
    });
    return () => view.destroy();
  }, [before, after, label]);
  return html`<div class="code-mirror" dir="ltr" ref=${host} />`;
}

const shadowOf = (host) => host.shadowRoot ?? host.attachShadow({ mode: "open" });
