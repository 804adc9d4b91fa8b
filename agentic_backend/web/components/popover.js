/**
 * A panel that a button opens beside itself, above everything else on the page.
 *
 * It is the browser's own popover: Escape and a click elsewhere close it, and the focus goes back to the button. The
 * panel is in the document only while it is open.
 */

import { useCallback, useId, useLayoutEffect, useRef, useState } from "./html.js";

/** Room between a panel and its button, and between a panel and the window's edge, in pixels. */
const GAP = 6;
const MARGIN = 8;

/**
 * `{isOpen, open, close, button, panel}`: the last two are the properties of the button and, while `isOpen`, of the
 * panel. `align` says which of their edges are in line: `start` or `end`. `onShown` gets the panel's element when it is
 * there, and may move the focus into it.
 */
export function usePopover({ align = "start", onShown } = {}) {
  const id = useId();
  const button = useRef(null);
  const panel = useRef(null);
  const [isOpen, setOpen] = useState(false);
  const open = useCallback(() => setOpen(true), []);
  const close = useCallback(() => panel.current?.hidePopover(), []);

  useLayoutEffect(() => {
    if (!isOpen) return undefined;
    const place = () => placeBeside(panel.current, button.current, align);
    // The panel returns the focus to what had it.
    button.current.focus({ preventScroll: true });
    panel.current.showPopover();
    place();
    onShown?.(panel.current);
    // What it shows may come later.
    const grown = new MutationObserver(place);
    grown.observe(panel.current, { childList: true, subtree: true, characterData: true });
    addEventListener("resize", place);
    addEventListener("scroll", place, { capture: true, passive: true });
    return () => {
      grown.disconnect();
      removeEventListener("resize", place);
      removeEventListener("scroll", place, { capture: true });
    };
  }, [isOpen]);

  const clicked = (event) => {
    // Else the browser would close what this click has opened.
    event.preventDefault();
    if (isOpen) close();
    else open();
  };
  return {
    isOpen,
    open,
    close,
    button: { ref: button, popovertarget: id, "aria-expanded": String(isOpen), onClick: clicked },
    panel: {
      ref: panel,
      id,
      popover: "auto",
      onToggle: ({ newState }) => newState === "closed" && setOpen(false),
    },
  };
}

/** Below the button, or above it where there is more room; within the window. */
export function placeBeside(panel, button, align) {
  const beside = button.getBoundingClientRect();
  const below = innerHeight - beside.bottom - GAP - MARGIN;
  const above = beside.top - GAP - MARGIN;
  const isBelow = below >= Math.min(panel.scrollHeight, above);
  panel.style.maxHeight = `${Math.max(isBelow ? below : above, 0)}px`;
  const { width, height } = panel.getBoundingClientRect();
  const isLeft = (align === "start") === (getComputedStyle(button).direction === "ltr");
  const left = isLeft ? beside.left : beside.right - width;
  panel.style.left = `${Math.max(MARGIN, Math.min(left, innerWidth - width - MARGIN))}px`;
  panel.style.top = `${isBelow ? beside.bottom + GAP : Math.max(MARGIN, beside.top - GAP - height)}px`;
}
