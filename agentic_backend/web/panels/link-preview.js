/**
 * Shows beside a link what it opens in a panel, while a pointer or the focus rests on it. It is read anew each time, as
 * the person may read it now, and kept nowhere.
 */

import { placeBeside } from "../components/popover.js";
import { errorText } from "../error-words.js";
import { visibleProse } from "../format.js";
import { t } from "../i18n.js";

const RESTS_MS = 300;
/** So long it takes to come from the link to what is shown. */
const LEAVES_MS = 250;
const GONE = new Set(["not_found", "session_not_found"]);

export class LinkPreview {
  #link = null;
  #card = null;
  #timer = null;

  /** Shows what `read` resolves to, a text, once somebody rests on `link`; rejects with an ApiError. */
  rest(link, read) {
    clearTimeout(this.#timer);
    if (link === this.#link && this.#card) return;
    this.end();
    this.#link = link;
    for (const type of ["pointerleave", "focusout"]) link.addEventListener(type, this.#leave);
    document.addEventListener("keydown", this.#keyed, true);
    this.#timer = setTimeout(() => this.#show(link, read), RESTS_MS);
  }

  end() {
    clearTimeout(this.#timer);
    for (const type of ["pointerleave", "focusout"]) this.#link?.removeEventListener(type, this.#leave);
    document.removeEventListener("keydown", this.#keyed, true);
    removeEventListener("scroll", this.#scrolled, true);
    this.#link?.removeAttribute("aria-describedby");
    this.#card?.remove();
    this.#link = this.#card = null;
  }

  async #show(link, read) {
    const text = await read().then(visibleProse, wordsOf);
    if (link !== this.#link || !link.isConnected) return;
    const card = document.createElement("div");
    Object.assign(card, { id: "link-preview", className: "link-preview", popover: "manual" });
    card.append(Object.assign(document.createElement("p"), { textContent: text, dir: "auto" }));
    card.setAttribute("role", "tooltip");
    card.dataset.testid = "link-preview";
    card.onpointerenter = () => clearTimeout(this.#timer);
    card.onpointerleave = this.#leave;
    document.body.append(card);
    card.showPopover();
    placeBeside(card, link, "start");
    link.setAttribute("aria-describedby", card.id);
    this.#card = card;
    addEventListener("scroll", this.#scrolled, { capture: true, passive: true });
  }

  #leave = () => {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.end(), LEAVES_MS);
  };

  #keyed = (event) => {
    if (event.key !== "Escape" || !this.#card) return;
    event.preventDefault();
    event.stopPropagation();
    this.end();
  };

  #scrolled = ({ target }) => {
    if (!this.#card.contains(target)) this.end();
  };
}

const wordsOf = (error) =>
  GONE.has(error.code) ? t("This is no longer there, or no longer yours to read.") : errorText(error);
