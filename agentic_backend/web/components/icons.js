/** Line icons, drawn in the text's colour; hidden from assistive technology, their buttons have labels. */

import { html } from "./html.js";

const SHAPES = {
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6L6 18",
  plus: "M12 5v14M5 12h14",
  search: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM20 20l-4-4",
  pencil: "M4 20l1-4L16 5l3 3L8 19l-4 1zM14 7l3 3",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13M10.5 11v5.5M13.5 11v5.5",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  copy: "M9 9h10v11H9zM6 15H5V4h10v2",
  check: "M5 12.5l4.5 4.5L19 7.5",
  cross: "M7 7l10 10M17 7L7 17",
  down: "M12 5v14M6 13l6 6 6-6",
  chevron: "M9 6l6 6-6 6",
  tool: "M14.5 6.5a4 4 0 0 1 5-1.5l-2.7 2.7 1.5 1.5L21 6.5a4 4 0 0 1-5.4 5L8 19a1.8 1.8 0 0 1-2.6-2.6L13 9z",
  warning: "M12 4l9 16H3zM12 10v4.5M12 17.3v.2",
  retry: "M19 12a7 7 0 1 1-2-5l2 2M19 4v5h-5",
  link: "M10 14l8-8M12 6h6v6M18 14v4H6V6h4",
  bulb: "M9.5 18h5M10.5 21h3M12 3a6 6 0 0 0-3.5 10.9c.7.5 1 1.2 1 2.1h5c0-.9.3-1.6 1-2.1A6 6 0 0 0 12 3z",
  person: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4.5 20.5a7.5 7.5 0 0 1 15 0",
  star: "M12 4l2.4 5.1 5.6.7-4.1 3.9 1.1 5.5-5-2.8-5 2.8 1.1-5.5L4 9.8l5.6-.7z",
  "star-full": "M12 4l2.4 5.1 5.6.7-4.1 3.9 1.1 5.5-5-2.8-5 2.8 1.1-5.5L4 9.8l5.6-.7z",
  "down-small": "M7 10l5 5 5-5",
  keyboard: "M3 7h18v10H3zM6.5 10.5h.01M10 10.5h.01M13.5 10.5h.01M17 10.5h.01M8 13.7h8",
  clip: "M20 11.5l-8.2 8.2a5 5 0 0 1-7.1-7.1l8.5-8.5a3.3 3.3 0 0 1 4.7 4.7l-8.5 8.5a1.7 1.7 0 0 1-2.4-2.4l7.8-7.8",
  file: "M7 3h7l4 4v14H7zM14 3v4h4M10 12h5M10 16h5",
  sliders: "M4 7h9M17 7h3M4 17h3M11 17h9M15 4.8v4.4M9 14.8v4.4",
  leave: "M14 4H5v16h9M10 12h10M16.5 8l4 4-4 4",
  thumbUp: "M7 11v9H4v-9zM7 11l4-7c1.6 0 2.5 1 2.2 2.6L12.7 10H19a1.6 1.6 0 0 1 1.5 2l-1.6 6.4A2 2 0 0 1 17 20H7",
  thumbDown: "M7 13V4H4v9zM7 13l4 7c1.6 0 2.5-1 2.2-2.6L12.7 14H19a1.6 1.6 0 0 0 1.5-2l-1.6-6.4A2 2 0 0 0 17 4H7",
  info: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM12 11v5.5M12 7.6v.2",
  share: "M12 15V4M8 7.5L12 3.5l4 4M5 12v8h14v-8",
  download: "M12 4v11M7.5 11l4.5 4.5 4.5-4.5M5 20h14",
  speaker: "M4 9.5v5h3.5l4.5 4v-13l-4.5 4zM15.5 9a4 4 0 0 1 0 6M18 6.5a7.5 7.5 0 0 1 0 11",
  microphone: "M12 14.5a3 3 0 0 0 3-3V6a3 3 0 0 0-6 0v5.5a3 3 0 0 0 3 3zM6 11.5a6 6 0 0 0 12 0M12 17.5V21",
  blank: "",
  panels: "M4 5h16v14H4zM14.5 5v14",
  sidebar: "M4 5h16v14H4zM9.5 5v14",
  archive: "M4 5h16v4H4zM5.5 9v10h13V9M10 13h4",
  pin: "M9 4h6l-1 6 3.5 4h-11L10 10zM12 14v6",
  back: "M15 6l-6 6 6 6",
  more: "M4.7 12a.6.6 0 1 0 1.2 0 .6.6 0 1 0-1.2 0M11.4 12a.6.6 0 1 0 1.2 0 .6.6 0 1 0-1.2 0M18.1 12a.6.6 0 1 0 1.2 0 .6.6 0 1 0-1.2 0",
  hand: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM9.5 9.5a2.5 2.5 0 1 1 3.5 2.3c-.7.3-1 .8-1 1.7M12 16.8v.2",
};

export function Icon({ name }) {
  return html`<svg class="icon" data-icon=${name} viewBox="0 0 24 24" aria-hidden="true"><path d=${SHAPES[name]} /></svg>`;
}

export function IconButton({ name, label, ...rest }) {
  return html`<button type="button" class="icon-button" aria-label=${label} title=${label} ...${rest}>
    <${Icon} name=${name} />
  </button>`;
}
