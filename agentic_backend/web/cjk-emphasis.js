/**
 * Emphasis beside Chinese, Japanese and Korean characters, which have no spaces between words: by CommonMark alone
 * `**「強調」**です` isn't bold. The rules are those of the CommonMark CJK-friendly Amendments.
 */

/** Wide characters that aren't emoji, and all of Hangul. JavaScript knows no property for the width. */
const CJK = new RegExp(
  "^[\\u1100-\\u11ff\\u20a9\\u2329\\u232a\\u2630-\\u2637\\u268a-\\u268f\\u2e80-\\u303e\\u3041-\\u3247\\u3250-\\ua4c6" +
    "\\ua960-\\ua97c\\uac00-\\ud7fb\\uf900-\\ufaff\\ufe10-\\ufe19\\ufe30-\\ufe6b\\uff01-\\uffee\\u{16fe0}-\\u{18df2}" +
    "\\u{1aff0}-\\u{1b2fb}\\u{1d300}-\\u{1d376}\\u{1f200}\\u{1f202}\\u{1f210}-\\u{1f219}\\u{1f21b}-\\u{1f22e}" +
    "\\u{1f230}\\u{1f231}\\u{1f237}\\u{1f23b}\\u{1f240}-\\u{1f248}\\u{1f260}-\\u{1f265}\\u{20000}-\\u{3fffd}]",
  "u",
);
/** They choose a form of the CJK character before them, and aren't characters of their own. */
const IDEOGRAPHIC_SELECTOR = /^[\u{e0100}-\u{e01ef}]/u;
const SELECTOR = /^[\ufe00-\ufe0e]/;
/** Quotation marks are as wide as CJK characters where this selector follows them. */
const WIDE_QUOTE = /^[‘’“”]\ufe01/;
const PUNCTUATION = /^[\p{P}\p{S}]/u;

export const isCjk = (sign) => CJK.test(sign);

/** A plugin of markdown-it. */
export function cjkEmphasis(markdown) {
  const { isWhiteSpace } = markdown.utils;
  const isSpace = (sign) => sign === "" || isWhiteSpace(sign.codePointAt(0));
  markdown.inline.State = class extends markdown.inline.State {
    scanDelims(start, canSplitWord) {
      const found = super.scanDelims(start, canSplitWord);
      const before = signBefore(this.src, start);
      const after = signAt(this.src, start + found.length, this.posMax);
      const cjkBefore = isCjk(before) || IDEOGRAPHIC_SELECTOR.test(before) || WIDE_QUOTE.test(before);
      const cjkAfter = isCjk(after);
      if (!cjkBefore && !cjkAfter) return found;

      const [pointBefore, pointAfter] = [before, after].map((sign) => PUNCTUATION.test(sign));
      const [foreignBefore, foreignAfter] = [pointBefore && !cjkBefore, pointAfter && !cjkAfter];
      const isLeft = !isSpace(after) && (!foreignAfter || isSpace(before) || foreignBefore || cjkBefore);
      const isRight = !isSpace(before) && (!foreignBefore || isSpace(after) || foreignAfter || cjkAfter);
      return {
        ...found,
        can_open: isLeft && (canSplitWord || !isRight || pointBefore),
        can_close: isRight && (canSplitWord || !isLeft || pointAfter),
      };
    }
  };
}

/** The character at `at` and before `end`, or "". */
const signAt = (text, at, end) => (at < end ? String.fromCodePoint(text.codePointAt(at)) : "");

/** The character before `at`, with a selector that follows it, or "". */
function signBefore(text, at) {
  const signs = [...text.slice(Math.max(0, at - 4), at)];
  const last = signs.pop() ?? "";
  return SELECTOR.test(last) ? (signs.pop() ?? "") + last : last;
}
